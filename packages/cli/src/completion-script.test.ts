import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from './commands/index.ts';
import { completionScript, SHELLS } from './completion-script.ts';

/** The words that bash offers after these words. */
function complete(...words: string[]): string[] {
  const script = `${completionScript('bash', COMMANDS)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const result = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  expect(result.stderr).toBe('');
  return result.stdout.split('\n').filter((line) => line !== '');
}

describe('completionScript', () => {
  it.each(SHELLS)('%s: names every command and option', (shell) => {
    const script = completionScript(shell, COMMANDS);
    for (const command of COMMANDS) {
      for (const word of command.name.split(' ')) expect(script).toContain(word);
      for (const option of command.options) expect(script).toContain(option.name);
    }
  });

  it('bash completes commands', () => {
    expect(complete('holdfast', 're')).toEqual(['restore', 'resume', 'report', 'recover']);
  });

  it('bash completes the second word of a command, and then what belongs to both', () => {
    expect(complete('holdfast', 'ela')).toEqual(['elasticdl']);
    expect(complete('holdfast', 'elasticdl', 'be')).toEqual(['best']);
    expect(complete('holdfast', 'elasticdl', 'best', '--met')).toEqual(['--metric']);
    expect(complete('holdfast', 'best', '--met')).toEqual([]);
  });

  it('bash completes the options of the command', () => {
    expect(complete('holdfast', 'restore', 'uri', '--on')).toEqual(['--only', '--on-corrupt']);
    expect(complete('holdfast', 'list', '--ti')).toEqual([]);
  });

  it('bash completes values where there are few', () => {
    expect(complete('holdfast', 'restore', '--on-corrupt', 'f')).toEqual(['fail', 'fallback']);
    expect(complete('holdfast', 'completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });

  it('bash leaves file names to the shell', () => {
    expect(complete('holdfast', 'save', './')).toEqual([]);
  });
});
