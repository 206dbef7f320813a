import { describe, expect, it } from 'vitest';
import { COMMANDS } from './commands/index.ts';
import { unknownVariables } from './unknown-variables.ts';

describe('unknownVariables', () => {
  it('names what nothing reads, with the name that was meant', () => {
    const env = {
      HOLDFAST_VERSION: '3',
      HOLDFAST_TIMOUT: '10s',
      HOLDFAST_URL: 'canary',
      HOLDFAST_COLOUR_SCHEME: 'x',
      PATH: '/bin',
    };
    expect(unknownVariables(env)).toEqual([
      'HOLDFAST_COLOUR_SCHEME is set, and nothing reads it',
      'HOLDFAST_TIMOUT is set, and nothing reads it; did you mean HOLDFAST_TIMEOUT?',
      'HOLDFAST_URL is set, and nothing reads it; did you mean HOLDFAST_URI?',
      'HOLDFAST_VERSION is set, and nothing reads it; did you mean HOLDFAST_CHECKPOINT_VERSION?',
    ]);
  });

  it('an option of any command, what the stores read, an empty one and those of tests are silent', () => {
    const names = COMMANDS.flatMap(({ options }) => options.map(({ envName }) => envName));
    expect(names).toContain('HOLDFAST_CHECKPOINT_VERSION');
    const known = [...names, 'HOLDFAST_URI', 'HOLDFAST_S3_CUSTOMER_KEY', 'HOLDFAST_TEST_COUNTS'];
    const env = { ...Object.fromEntries(known.map((name) => [name, '1'])), HOLDFAST_NOTHING: '' };
    expect(unknownVariables(env)).toEqual([]);
  });
});
