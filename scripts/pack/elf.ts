/**
 * Reads the headers of a Linux program: the machine that it is for, and the glibc that it needs.
 */

import { readFileSync } from 'node:fs';

const ELF_MAGIC = 0x7f454c46;
const MACHINE_AT = 18;
const MACHINES = { x64: 62, arm64: 183 } as const;

export type ElfMachine = keyof typeof MACHINES;

/** Throws unless the file is a program for this machine. */
export function assertElf(file: string, machine: ElfMachine): void {
  const bytes = readFileSync(file);
  if (bytes.length > MACHINE_AT + 2 && bytes.readUInt32BE(0) === ELF_MAGIC) {
    if (bytes.readUInt16LE(MACHINE_AT) === MACHINES[machine]) return;
  }
  throw new Error(`${file} is not a program for ${machine}`);
}

/** The newest glibc version whose symbols any of the programs uses, such as `2.28`. */
export function glibcMin(files: readonly string[]): string {
  let newest: readonly [number, number] = [0, 0];
  for (const file of files) {
    for (const [, major, minor] of readFileSync(file, 'latin1').matchAll(/\bGLIBC_(\d+)\.(\d+)/g)) {
      const found = [Number(major), Number(minor)] as const;
      if (found[0] > newest[0] || (found[0] === newest[0] && found[1] > newest[1])) newest = found;
    }
  }
  return newest.join('.');
}
