import { arch, platform } from 'node:os';
import type { Call, Command, CommandResult } from '../command.ts';
import { takeOperands } from '../operands.ts';

export const versionCommand: Command = {
  name: 'version',
  group: 'Shell',
  summary: 'Print the version of this program, of the Node that runs it, and which code computes CRC32C',
  operands: '',
  options: [],
  examples: ['holdfast version', 'holdfast version --json'],
  run: runVersion,
};

async function runVersion(call: Call): Promise<CommandResult> {
  takeOperands(call.command, call.operands, []);
  const node = process.versions.node;
  const { crc32cImplementation: crc32c } = await import('@holdfast/core');
  return {
    text: `holdfast ${call.programVersion}   Node ${node}   ${platform()}-${arch()}   CRC32C by ${crc32c}`,
    json: { version: call.programVersion, node, platform: platform(), arch: arch(), crc32c },
  };
}
