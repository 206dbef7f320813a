/** Reads what `python/pyproject.toml` says of the Python package. */

export interface PythonProject {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly 'requires-python': string;
  readonly dependencies: readonly string[];
  readonly classifiers: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
  readonly 'optional-dependencies': Readonly<Record<string, readonly string[]>>;
  /** By the name of their group: what other packages find of this one. */
  readonly 'entry-points': Readonly<Record<string, Readonly<Record<string, string>>>>;
}

const FIELDS = [
  ...['name', 'version', 'description', 'license', 'requires-python', 'dependencies', 'classifiers'],
  ...['scripts', 'optional-dependencies'],
];

/**
 * The tables `project` and `project.…`. They may hold texts and lists of texts, each in one line:
 * such values are the same in TOML and in JSON. Throws if there is something else.
 */
export function parseProject(text: string): PythonProject {
  const tables = new Map<string, Record<string, unknown>>([['', {}]]);
  let current: Record<string, unknown> | undefined;
  for (const line of text.split('\n')) {
    const [, header] = /^\[(.+)\]$/.exec(line) ?? [];
    if (header !== undefined) {
      const [, below] = /^project(?:\.(.+))?$/.exec(header) ?? [];
      const isOurs = header === 'project' || below !== undefined;
      current = isOurs ? {} : undefined;
      if (current) tables.set(below ?? '', current);
    } else if (current && line !== '') Object.assign(current, parseLine(line));
  }
  const { '': own, ...below } = Object.fromEntries(tables);
  const project: Record<string, unknown> = { ...own, ...below, 'entry-points': entryPoints(tables) };
  const missing = FIELDS.filter((field) => project[field] === undefined);
  if (missing.length > 0) throw new Error(`pyproject.toml has no ${missing.join(', ')}`);
  return project as unknown as PythonProject;
}

/** Tables such as `entry-points."fsspec.specs"`. */
function entryPoints(tables: ReadonlyMap<string, Record<string, unknown>>): Record<string, unknown> {
  const groups = [...tables].flatMap(([name, table]) => {
    const [, group] = /^entry-points\.(.+)$/.exec(name) ?? [];
    return group === undefined ? [] : [[group.replace(/^"(.+)"$/, '$1'), table]];
  });
  return Object.fromEntries(groups);
}

function parseLine(line: string): Record<string, unknown> {
  const [, name, value] = /^([\w-]+) = (.+)$/.exec(line) ?? [];
  try {
    if (name !== undefined && value !== undefined) return { [name]: JSON.parse(value) };
  } catch (error) {
    throw new Error(`pyproject.toml: not a text or a list of texts in one line: ${line}`, { cause: error });
  }
  throw new Error(`pyproject.toml: not "name = value": ${line}`);
}
