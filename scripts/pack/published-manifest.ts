/** The package.json that a user gets, from the one that stands in the repository. Pure. */

/** The part of a package.json that packing reads. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly exports?: Exports;
  readonly dependencies?: Dependencies;
  readonly optionalDependencies?: Dependencies;
  readonly peerDependencies?: Dependencies;
  readonly [field: string]: unknown;
}

export type Exports = Readonly<Record<string, Readonly<Record<string, string>>>>;
type Dependencies = Readonly<Record<string, string>>;

/** What only the repository needs. */
const OWN_FIELDS = new Set(['private', 'scripts', 'devDependencies']);
const DEPENDENCY_FIELDS = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;
export const NODE_TYPES = '@types/node';
/** Native code that computes checksums: only the version that was tested. */
const PINNED = new Set(['@napi-rs/blake-hash', '@node-rs/crc32']);
const SOURCE_CONDITION = 'holdfast-source';

export interface Origin {
  /** Of the repository, without `.git`. */
  readonly url: string;
  /** From the root of the repository to the package. */
  readonly directory: string;
}

/**
 * `installedVersion` gives the version that the repository uses of a dependency named in its catalog. Throws for a dependency whose
 * protocol no registry knows.
 */
export function publishedManifest(
  manifest: Manifest,
  origin: Origin,
  installedVersion: (name: string) => string,
): Manifest {
  const kept = Object.entries(manifest).filter(([field]) => !OWN_FIELDS.has(field));
  const rewritten: Record<string, unknown> = Object.fromEntries(kept);
  for (const field of DEPENDENCY_FIELDS) {
    const dependencies = manifest[field];
    if (dependencies === undefined) continue;
    rewritten[field] = Object.fromEntries(
      Object.entries(dependencies).map(([name, range]) => [
        name,
        publishedRange(manifest, name, range, installedVersion),
      ]),
    );
  }
  return {
    ...(rewritten as Manifest),
    ...(manifest.exports && { exports: publishedExports(manifest.exports) }),
    repository: { type: 'git', url: `git+${origin.url}.git`, directory: origin.directory },
    homepage: `${origin.url}#readme`,
    bugs: `${origin.url}/issues`,
    // A registry takes a package with a scope for a private one otherwise.
    publishConfig: { access: 'public' },
  };
}

function publishedRange(
  manifest: Manifest,
  name: string,
  range: string,
  installedVersion: (name: string) => string,
): string {
  // All packages have one version, and are made for each other.
  if (range === 'workspace:*') return manifest.version;
  // Any version, so that a program never has two copies of the globals that it declares.
  if (name === NODE_TYPES) return '*';
  if (range === 'catalog:' && PINNED.has(name)) return installedVersion(name);
  if (range === 'catalog:') return `^${installedVersion(name)}`;
  if (range.includes(':'))
    throw new Error(`${manifest.name} depends on ${name} as "${range}"; no registry knows that`);
  return range;
}

/** Without what leads to sources, which are not in the package. */
function publishedExports(exports: Exports): Exports {
  const published: Record<string, Readonly<Record<string, string>>> = {};
  for (const [path, conditions] of Object.entries(exports)) {
    const kept = Object.entries(conditions).filter(([condition]) => condition !== SOURCE_CONDITION);
    if (kept.length > 0) published[path] = Object.fromEntries(kept);
  }
  return published;
}
