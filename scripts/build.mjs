// Owns the build on request, which never trusts what an earlier one left.

import { build } from './prepare.mjs'

await build()
