/** Records the calls of a schedule: always as a hash, and as text on request. */

const LINES_MAX = 5000;

export class Trace {
  readonly lines: string[] = [];
  #hash = 0x811c9dc5;
  #count = 0;

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0');
  }

  add(process: string, what: string): void {
    const line = `${process} ${what}`;
    for (let index = 0; index < line.length; index++) {
      this.#hash = Math.imul(this.#hash ^ line.charCodeAt(index), 0x01000193);
    }
    this.#count++;
    if (this.lines.length < LINES_MAX) this.lines.push(`${String(this.#count).padStart(5)} ${line}`);
  }
}
