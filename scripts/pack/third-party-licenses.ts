/** Collects the licences of bundled packages, because most of them must be passed on. */

import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const PACKAGE = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//;
/** The bundler marks modules that it generated with a namespace before the path. */
const MADE_UP = /^[\w-]+:/;
const LICENSE_FILE = /^(licen[cs]e|copying|notice)/i;

/**
 * One text with the name, version and licence of each package that `inputs` come from. `inputs` are
 * paths from `directory`.
 */
export function thirdPartyLicenses(directory: string, inputs: readonly string[]): string {
  const homes = new Set(
    inputs
      .filter((input) => !MADE_UP.test(input))
      .flatMap((input) => {
        const home = PACKAGE.exec(resolve(directory, input))?.[1];
        return home === undefined ? [] : [home];
      }),
  );
  const texts = Array.from(homes, licenseOf).sort((a, b) => (a < b ? -1 : 1));
  return `The bundle of this package contains these packages.\n\n${[...new Set(texts)].join('\n')}`;
}

function licenseOf(home: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as Record<
    string,
    string
  >;
  const texts = readdirSync(home)
    .filter((file) => LICENSE_FILE.test(file) && !file.endsWith('.js'))
    .sort()
    .map((file) => readFileSync(join(home, file), 'utf8').trim());
  return `${'='.repeat(80)}\n${name} ${version} (${license})\n\n${texts.join('\n\n')}\n`;
}
