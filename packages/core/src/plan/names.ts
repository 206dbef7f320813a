/**
 * The names of all files and empty directories of a checkpoint, across its writers. Memory: the
 * names. Pure.
 */

/**
 * Two files with one name, or a file with a name that another file or an empty directory needs as a
 * directory.
 */
export interface NameClash {
  readonly writers: readonly [number, number];
  readonly name: string;
  /**
   * The file that needs `name` as its directory, or such an empty directory, with a '/' at its end.
   * `undefined`: both files have this name.
   */
  readonly below: string | undefined;
}

export class NameOwners {
  readonly #owners = new Map<string, number>();
  /** With a '/' at the end. As with files, every name before a '/' must be a directory. */
  readonly #directories = new Map<string, number>();

  /** Adds files of one writer; returns the first clash with another file. */
  add(files: readonly { readonly name: string }[], writer: number): NameClash | undefined {
    for (const { name } of files) {
      const other = this.#owners.get(name);
      if (other !== undefined) return { writers: [other, writer], name, below: undefined };
      this.#owners.set(name, writer);
    }
    return undefined;
  }

  /**
   * Adds empty directories of one writer. Other writers may have the same ones, and files in them.
   */
  addDirectories(directories: readonly { readonly name: string }[], writer: number): void {
    for (const { name } of directories) this.#directories.set(`${name}/`, writer);
  }

  /** Call it when all are added: returns the first file that has the name of a directory. */
  findDirectory(): NameClash | undefined {
    return this.#findAbove(this.#owners) ?? this.#findAbove(this.#directories);
  }

  #findAbove(names: ReadonlyMap<string, number>): NameClash | undefined {
    for (const [below, writer] of names) {
      for (let end = below.lastIndexOf('/'); end > 0; end = below.lastIndexOf('/', end - 1)) {
        const name = below.slice(0, end);
        const other = this.#owners.get(name);
        if (other !== undefined) return { writers: [other, writer], name, below };
      }
    }
    return undefined;
  }
}

export function clashText({ writers: [first, second], name, below }: NameClash): string {
  if (below === undefined) return `writers ${first} and ${second} both delivered "${name}"`;
  return `writer ${first} delivered "${name}" as a file, writer ${second} as a directory ("${below}")`;
}
