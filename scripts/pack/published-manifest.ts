/** Makes the package.json that a user gets from the one in the repository. Pure. */

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

/** Fields that only the repository needs. */
const OWN_FIELDS = new Set(['private', 'scripts', 'devDependencies']);
const DEPENDENCY_FIELDS = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;
export const NODE_TYPES = '@types/node';
/** Native code that computes checksums. Only the tested version may be used. */
const PINNED = new Set(['@napi-rs/blake-hash', '@node-rs/crc32']);
const SOURCE_CONDITION = 'holdfast-source';

export interface Origin {
  /** URL of the repository, without `.git`. */
  readonly url: string;
  /** Path from the root of the repository to the package. */
  readonly directory: string;
}

/**
 * `installedVersion` returns the version that the repository uses of a dependency from its catalog.
 * Throws for a dependency whose protocol no registry supports.
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
    // Without this, a registry treats a package with a scope as private.
    publishConfig: { access: 'public' },
  };
}

function publishedRange(
  manifest: Manifest,
  name: string,
  range: string,
  installedVersion: (name: string) => string,
): string {
  // All packages have one version and are made to work together.
  if (range === 'workspace:*') return manifest.version;
  // Accept any version, so that a program never has two copies of the globals that it declares.
  if (name === NODE_TYPES) return '*';
  if (range === 'catalog:' && PINNED.has(name)) return installedVersion(name);
  if (range === 'catalog:') return `^${installedVersion(name)}`;
  if (range.includes(':'))
    throw new Error(`${manifest.name} depends on ${name} as "${range}"; no registry knows that`);
  return range;
}

/** Removes conditions that lead to sources, because the package does not contain them. */
function publishedExports(exports: Exports): Exports {
  const published: Record<string, Readonly<Record<string, string>>> = {};
  for (const [path, conditions] of Object.entries(exports)) {
    const kept = Object.entries(conditions).filter(([condition]) => condition !== SOURCE_CONDITION);
    if (kept.length > 0) published[path] = Object.fromEntries(kept);
  }
  return published;
}
