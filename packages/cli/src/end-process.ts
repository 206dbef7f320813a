import module, { createRequire } from 'node:module';
import { nativeDirectory } from './native-directory.ts';

/**
 * Ends the process with `process.exitCode`, all output being written. Signals are ignored to the
 * last instant if the native code is there. Otherwise Node ends by itself, and for its last tenth
 * of a second any signal replaces the exit status.
 */
export function endProcess(): void {
  const exitNow = loadExitNow();
  if (exitNow !== undefined) {
    const status = Number(process.exitCode ?? 0);
    // Node would do both at its own end.
    process.emit('exit', status);
    module.flushCompileCache?.();
    exitNow(status);
  }
  // Node ends by itself when nothing is left. Exiting during its own compilations can hang Node 24
  // for ever, so exit only if there are leftovers, such as a process that was to provide
  // credentials.
  setTimeout(() => process.exit(), 50).unref();
}

/** `undefined` where the code is not compiled or does not load. */
function loadExitNow(): ((status: number) => void) | undefined {
  try {
    const file = `./exit-${process.platform}-${process.arch}.node`;
    return (createRequire(nativeDirectory())(file) as { exitNow: (status: number) => void }).exitNow;
  } catch {
    return undefined;
  }
}
