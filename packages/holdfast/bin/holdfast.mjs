#!/usr/bin/env node
// Starts the command. An older Node can parse this file too: it gets one sentence and not a strange error.
const NODE_MAJOR_MIN = 22;
if (Number(process.versions.node.split('.')[0]) < NODE_MAJOR_MIN) {
  console.error(
    `holdfast: Node ${NODE_MAJOR_MIN} or newer is needed; this is Node ${process.versions.node}, ${process.execPath}`,
  );
  process.exitCode = 126;
} else {
  void import('../dist/command.mjs');
}
