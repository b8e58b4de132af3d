/**
 * A tenant fills its machine's log and then searches or follows the log with many concurrent calls.
 */
import { callRoute } from '../../api/support/calls.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createPoolToJoin } from '../node/pool.ts';
import type { Attack } from '../support/attack.ts';
import { shipBomb } from '../support/log-bomb.ts';
import { allocate, createTenantToken, startMachineInNewPool } from '../support/tenancy.ts';

const placesFile = 'src/api/limits/held/places.ts';

async function startServedMachine(
  server: SpawnedServer,
  tenant: string,
): Promise<{ machine: Machine; bearer: string }> {
  const bearer = await createTenantToken(server, tenant);
  const machine = await startMachineInNewPool(server, `${tenant}-pool`);
  await allocate(server, bearer, `${tenant}-pool`);
  return { machine, bearer };
}

/** Runs `each` searches per token at once, in several rounds. Returns whether none was refused. */
async function searchConcurrently(server: SpawnedServer, { node_id }: Machine, bearers: string[], each: number) {
  const input = { params: { id: node_id }, query: { q: 'not there' } };
  for (let round = 0; round < 3; round++) {
    const calls = bearers.flatMap((bearer) =>
      Array.from({ length: each }, () => callRoute(server.url, 'node-logs', input, { bearer })),
    );
    const answers = await Promise.all(calls);
    if (answers.some(({ status }) => status === 429)) return false;
    if (answers.some(({ status }) => status !== 200)) throw new Error('a search failed');
  }
  return true;
}

/**
 * Follows a log to which nothing is added, so each call lasts many seconds. Returns whether none
 * was refused.
 */
async function followConcurrently(server: SpawnedServer, { node_id }: Machine, bearers: string[], each: number) {
  const pendingCalls = new AbortController();
  let answeredCount = 0;
  let isRefused = false;
  for (const bearer of bearers)
    for (let count = 0; count < each; count++)
      void fetch(`${server.url}/v1/nodes/${node_id}/logs?follow=true`, {
        headers: { authorization: `Bearer ${bearer}` },
        signal: pendingCalls.signal,
      })
        .then(({ status }) => {
          answeredCount++;
          isRefused ||= status === 429;
        })
        .catch(() => undefined);
  await until(
    'a call to be refused, or all to be answered',
    () => isRefused || answeredCount === bearers.length * each,
  );
  pendingCalls.abort();
  return !isRefused;
}

export const logSearchAttacks: Attack[] = [
  {
    name: 'searches a whole log with one call',
    without: [
      {
        file: 'src/store/logs/node-logs.ts',
        find: 'maxReadBytes = 32 * 1024 * 1024;',
        replace: 'maxReadBytes = 1e12;',
      },
    ],
    async succeeds(server) {
      const machine = await startMachine(server.url, await createPoolToJoin(server, 'log-search'));
      await shipBomb(machine, 10);
      const input = { params: { id: machine.node_id }, query: { q: 'not there' } };
      const { status, body } = await callRoute(server.url, 'node-logs', input, { bearer: server.token });
      if (status !== 200) throw new Error(`the search was answered with ${status}`);
      return body.continue_at === null;
    },
  },
  {
    name: 'searches more logs at once than one token may',
    without: [{ file: placesFile, find: 'one_tenant: 6, one_token: 4', replace: 'one_tenant: 6, one_token: 100' }],
    async succeeds(server) {
      const { machine, bearer } = await startServedMachine(server, 'searcher');
      await shipBomb(machine, 8);
      return searchConcurrently(server, machine, [bearer], 6);
    },
  },
  {
    name: 'searches more logs at once than one tenant may, with several tokens',
    without: [{ file: placesFile, find: 'one_tenant: 6, one_token: 4', replace: 'one_tenant: 100, one_token: 4' }],
    async succeeds(server) {
      const { machine, bearer } = await startServedMachine(server, 'searchers');
      await shipBomb(machine, 8);
      const others = [
        await createTenantToken(server, 'searchers', 'second'),
        await createTenantToken(server, 'searchers', 'third'),
      ];
      return searchConcurrently(server, machine, [bearer, ...others], 4);
    },
  },
  {
    name: 'follows more logs than one token may',
    without: [{ file: placesFile, find: 'one_tenant: 100, one_token: 50', replace: 'one_tenant: 100, one_token: 100' }],
    async succeeds(server) {
      const { machine, bearer } = await startServedMachine(server, 'follower');
      return followConcurrently(server, machine, [bearer], 60);
    },
  },
  {
    name: 'follows more logs than one tenant may, with several tokens',
    without: [{ file: placesFile, find: 'one_tenant: 100, one_token: 50', replace: 'one_tenant: 400, one_token: 50' }],
    async succeeds(server) {
      const { machine, bearer } = await startServedMachine(server, 'followers');
      const others = [
        await createTenantToken(server, 'followers', 'second'),
        await createTenantToken(server, 'followers', 'third'),
      ];
      return followConcurrently(server, machine, [bearer, ...others], 40);
    },
  },
];
