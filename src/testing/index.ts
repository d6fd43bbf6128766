// Owns the public face of the testing tools: 'ax-scheduler/testing'.
// May never hold logic of its own.

export {
  type ConformanceOptions,
  conformance,
  type OpenStore,
  type Runner,
} from './conformance.ts'
export { type FoundViolation, type Outcome, type SimulateOptions, simulate } from './simulate.ts'
export { type VirtualRuntime, virtualRuntime } from './virtual.ts'
