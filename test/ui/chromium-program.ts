/**
 * Chromium: the program on the PATH, or else the package of Debian and its derivatives with what it
 * depends on, unpacked into the cache without root rights.
 */

import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cachedBuild, ServerUnavailable } from '../servers/cached-build.ts';
import { type DebianFetch, PATIENT, pathOf, unpackDebianPackages } from '../servers/debian-packages.ts';

export const CHROMIUM_TITLE = 'Chromium';
/** Name of the directory in the cache. The version is the distribution's. */
export const CHROMIUM_HOME = 'chromium-of-distribution';
export const CHROMIUM_FILE = 'bin/chromium';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/**
 * Returns the path of the program, and fetches it if it is missing, as `cachedBuild` does. Throws
 * `ServerUnavailable` if it cannot be fetched.
 */
export async function chromiumProgram(fetch: DebianFetch = PATIENT): Promise<string> {
  const build = async (directory: string) => {
    const file = join(directory, CHROMIUM_FILE);
    await mkdir(dirname(file), { recursive: true });
    for (const name of NAMES) {
      const path = await pathOf(name);
      if (path !== '') return symlink(path, file);
    }
    await fromDistribution(directory, file, fetch);
  };
  return cachedBuild({ title: CHROMIUM_TITLE, home: CHROMIUM_HOME, file: CHROMIUM_FILE, build });
}

async function fromDistribution(directory: string, file: string, fetch: DebianFetch): Promise<void> {
  await writeFile(file, launcher());
  await chmod(file, 0o755);
  try {
    await unpackDebianPackages(
      {
        title: CHROMIUM_TITLE,
        names: ['chromium', 'fonts-dejavu-core'],
        withDependencies: true,
        directory,
        check: [file, '--version'],
      },
      fetch,
    );
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    throw new ServerUnavailable(
      `no Chromium is on the PATH, and this distribution does not give it; install the package chromium of Debian (${error.message})`,
    );
  }
}

/**
 * Its libraries and fonts are beside it, and not where it looks for them. Some packages keep
 * libraries in a directory of their own, as PulseAudio does. It is tried once before it is moved to
 * its place, so the paths of the fonts change.
 */
function launcher(): string {
  return `#!/bin/sh
home=$(dirname -- "$(dirname -- "$0")")
libraries=
for directory in "$home"/usr/lib/*-linux-gnu/ "$home"/lib/*-linux-gnu/ "$home"/usr/lib/*-linux-gnu/*/; do
  libraries="$libraries:$directory"
done
export LD_LIBRARY_PATH="\${libraries#:}"
fonts="$home/fonts.conf"
grep -qsF "$home/font-cache" "$fonts" || printf '<fontconfig><dir>%s</dir><dir>/usr/share/fonts</dir><cachedir>%s</cachedir></fontconfig>' \\
  "$home/usr/share/fonts" "$home/font-cache" > "$fonts"
export FONTCONFIG_FILE="$fonts"
exec "$home/usr/lib/chromium/chromium" "$@"
`;
}
