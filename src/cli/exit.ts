// Owns what the exit code of `ax` says. May never print.

export const EXIT = {
  success: 0,
  failed: 1,
  usage: 2,
  internal: 3,
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** For `--help`. */
export const EXIT_CODES = `
Exit codes:
    0  every job succeeded
    1  a job failed, was cancelled, or never became ready; or the run was taken away from this
       process by another one
    2  the command, the flow file or the store cannot be used; nothing was started
    3  an internal error of ax, or an error that a module threw outside of any job
  130  interrupted before every job had succeeded (Ctrl-C, SIGTERM, SIGHUP)`

/** For `ax worker --help`. */
export const WORKER_EXIT_CODES = `
Exit codes:
    0  it was told to stop, and everything that ran in it has ended
    2  the command, the module or the store cannot be used; nothing was started
    3  an internal error of ax, or an error that a module threw outside of any job
  130  it was told to stop, and had to hand back jobs that were running, or left at once`
