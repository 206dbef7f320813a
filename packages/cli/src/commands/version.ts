import { arch, platform } from 'node:os';
import type { Call, Command, CommandResult } from '../command.ts';
import { takeOperands } from '../operands.ts';

export const versionCommand: Command = {
  name: 'version',
  group: 'Shell',
  summary: 'Print the version of this program, and of the Node that runs it',
  operands: '',
  options: [],
  examples: ['holdfast version', 'holdfast version --json'],
  run: runVersion,
};

async function runVersion(call: Call): Promise<CommandResult> {
  takeOperands(call.command, call.operands, []);
  const node = process.versions.node;
  return {
    text: `holdfast ${call.programVersion}   Node ${node}   ${platform()}-${arch()}`,
    json: { version: call.programVersion, node, platform: platform(), arch: arch() },
  };
}
