/** The agent beside trainers in other languages: saves and restores over a unix socket. */

export type { Stopped } from './agent.ts';
export type { StatusView, WriterView } from './api/shapes.ts';
export { type AgentOptions, type RunningAgent, startAgent } from './start-agent.ts';
