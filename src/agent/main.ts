/** Entry point of the agent's file. It is also the shim of a command (see process/shim/shim.ts). */
import { shimArgument } from './process/shim/shim-argument.ts';

// Without this handler, the signal opens a debugger that every process of this host can use.
process.on('SIGUSR1', () => {});
// Loads one program only, so that a shim stays small.
if (process.argv[2] === shimArgument) await (await import('./process/shim/shim.ts')).runShim(process.argv[3] ?? '');
else await (await import('./life/program.ts')).runProgram(process.argv[1] ?? '');
