import type { CheckpointManager, SaveOptions, SaveSource } from '@holdfast/core';

/**
 * The same manager, except that `pause` may stop a save in the middle of a file, for any time. It
 * does so if `mayPause` returns true for the version. Real trainers do not need this. The story
 * does, because processes die at exact moments in it.
 */
export function pausingManager<M extends CheckpointManager>(
  manager: M,
  mayPause: (version: number) => boolean,
  pause: () => Promise<void>,
): M {
  const save = (options: SaveOptions) => {
    if (!mayPause(Number(options.version))) return manager.save(options);
    const files = Object.entries(options.files ?? {});
    return manager.save({
      ...options,
      files: Object.fromEntries(files.map(([name, source]) => [name, pausing(source, pause)])),
    });
  };
  return new Proxy(manager, {
    get(target, name) {
      if (name === 'save') return save;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** Sends half of the first chunk, then pauses. */
function pausing(source: SaveSource, pause: () => Promise<void>): SaveSource {
  if (typeof source === 'string') return source;
  const chunks = source instanceof Uint8Array ? [source] : source;
  return (async function* () {
    let isPaused = false;
    for await (const chunk of chunks) {
      if (isPaused) {
        yield chunk;
        continue;
      }
      const half = Math.floor(chunk.byteLength / 2);
      yield chunk.subarray(0, half);
      await pause();
      isPaused = true;
      yield chunk.subarray(half);
    }
  })();
}
