/**
 * Reads the credentials and records of one machine instance, and checks the answers that it gets
 * after it was replaced.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { BootStage, LogLine } from '../../../src/contract/node.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import type { ScenarioContext } from './scenario.ts';

export interface Credentials {
  credential: string;
  enrollment_token: string | null;
}

const readJson = async (path: string) => JSON.parse(await readFile(path, 'utf8'));

/** Call this while the instance runs, because its directory is deleted with it. */
export async function credentialsOf(context: ScenarioContext, node_instance_id: string): Promise<Credentials> {
  const directory = join(context.server.nodes_dir, node_instance_id);
  const { identity } = await readJson(join(directory, '.agent', 'state.json'));
  const { enrollment_token } = await readJson(join(directory, 'agent.json'));
  return { credential: identity.credential, enrollment_token };
}

/** Reads the credentials of an agent that joined by token. */
export async function credentialsIn(dir: string): Promise<Credentials> {
  const { identity } = await readJson(join(dir, '.agent', 'state.json'));
  return { credential: identity.credential, enrollment_token: null };
}

/** Checks that every call of the instance is refused as fenced, not as an unknown credential. */
export async function expectFenced(
  context: ScenarioContext,
  { credential, enrollment_token }: Credentials,
): Promise<void> {
  const { url } = context.server;
  const lines = `${JSON.stringify({ seq: 1, at: '2030-01-01T00:00:00Z', stream: 'stdout', line: 'still here' })}\n`;
  const ownCredential = { bearer: credential };
  const logRequest = { ...ownCredential, raw: lines, headers: { 'content-type': 'application/x-ndjson' } };
  const beat = () => callRoute(url, 'agent-heartbeat', { body: { status: 'ready' } }, ownCredential);
  const answers = [
    // A replica reads a fence from the evidence, a moment after the commit.
    await context.waitFor('the replica to refuse the instance', async () => {
      const answer = await beat();
      return answer.status === 200 ? undefined : answer;
    }),
    await callRoute(url, 'agent-heartbeat', { body: {} }, ownCredential),
    await callRoute(url, 'agent-logs', {}, logRequest),
    await callRoute(url, 'agent-task-next', { query: { wait: 0 } }, ownCredential),
    await callRoute(url, 'agent-register', { body: { version: 'late' } }, ownCredential),
  ];
  if (enrollment_token !== null)
    answers.push(await callRoute(url, 'agent-register', { body: { enrollment_token, version: 'late' } }));
  for (const answer of answers) {
    expectProblem(answer, 'instance_fenced');
    expect(answer.status).toBe(409);
  }
}

export interface InstanceRecord {
  lines: LogLine[];
  stages: BootStage[];
  facts: string[];
  /** The layers that contributed frozen evidence. */
  frozen_by: string[];
}

/** Everything the API shows about an instance. */
export async function recordOf(context: ScenarioContext, id: string, instance: string): Promise<InstanceRecord> {
  const params = { id };
  const logs = await context.client.call('node-logs', { params, query: { instance, limit: 500 } });
  const { stages } = await context.client.call('node-boot', { params, query: { instance } });
  const query = { node_instance_id: instance, order: 'oldest', limit: 500 } as const;
  const { items } = await context.client.call('timeline-get', { query });
  const frozen = items.filter(({ kind }) => kind === 'evidence.frozen');
  return {
    lines: logs.items,
    stages,
    facts: items.map(({ kind }) => kind),
    frozen_by: frozen.map(({ layer }) => layer),
  };
}
