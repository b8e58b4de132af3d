/** A tenant that lets its machine write much and then searches all of it. */
import { callRoute } from '../../api/support/calls.ts';
import { startMachine } from '../../api/support/machine.ts';
import { poolToJoin } from '../node/pool.ts';
import type { Attack } from '../support/attack.ts';
import { shipBomb } from '../support/log-bomb.ts';

export const logSearchAttacks: Attack[] = [
  {
    name: '11: has a whole log searched by one call',
    without: [
      { file: 'src/store/node-logs.ts', find: 'maxReadBytes = 32 * 1024 * 1024;', replace: 'maxReadBytes = 1e12;' },
    ],
    async succeeds(server) {
      const machine = await startMachine(server.url, await poolToJoin(server, 'log-search'));
      await shipBomb(machine, 10);
      const asked = { params: { id: machine.node_id }, query: { q: 'not there' } };
      const { status, body } = await callRoute(server.url, 'node-logs', asked, { bearer: server.token });
      if (status !== 200) throw new Error(`the search was answered ${status}`);
      return body.continue_at === null;
    },
  },
];
