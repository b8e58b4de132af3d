/**
 * The holder of a join token makes the server probe addresses. When a client registers under a
 * known name from a new address, the server probes the former address, to find out whether the
 * holder of the name still runs there.
 */
import { fileURLToPath } from 'node:url';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { agentFieldClient, createProtocolPool } from '../../api/support/compat-clients.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const probesLoopback = { probe: { allow_private: true }, heartbeat: { stale_after_seconds: 24 * 3600 } };
const readyFields = { lifecycle_status: 'ready' };
const names = (count: number) => Array.from({ length: count }, (_, place) => `machine-${place}`);

export const probeAttacks: Attack[] = [
  {
    name: 'uses up all probes, so that a machine of another pool cannot register from a new address',
    without: [
      {
        file: 'src/api/compat/restart.ts',
        find: '(probesByToken.get(join_token_id) ?? 0) >= maxProbesOfToken',
        replace: '(probesByToken.get(join_token_id) ?? 0) < 0',
      },
    ],
    async succeeds(server) {
      const { token } = await createProtocolPool(server, 'greedy', probesLoopback);
      const { token: victimToken } = await createProtocolPool(server, 'modest', probesLoopback);
      // Accepts connections and never answers.
      const tarpit = await httpServer(() => {});
      const attacker = agentFieldClient(server.url, token);
      const victim = agentFieldClient(server.url, victimToken);
      const at = (path: string) => ({ ...readyFields, base_url: `http://127.0.0.1:${tarpit.port}/${path}` });
      await Promise.all(names(40).map((name) => attacker.register(name, at(name))));
      await victim.register('victim', { ...readyFields, base_url: `http://127.0.0.1:${await freePort()}` });
      const flood = names(40).map((name) => attacker.register(name, at(`${name}/elsewhere`)));
      // The first refused call shows that as many probes are in progress as the token may have.
      await Promise.any(
        flood.map(async (each) => {
          if ((await each).body.code !== 'rate_limited') throw new Error('the call was not rate limited');
        }),
      );
      const answer = await victim.register('victim', {
        ...readyFields,
        base_url: `http://127.0.0.1:${await freePort()}`,
      });
      await Promise.all(flood);
      return answer.body.code === 'rate_limited';
    },
  },
];

/** For servers on which a few registrations use up the allowance of a join token. */
export const smallAllowance = ['--config', fileURLToPath(new URL('../support/small-allowance.yaml', import.meta.url))];

export const smallAllowanceProbeAttacks: Attack[] = [
  {
    name: 'makes the server probe addresses after its token has used up its allowance',
    without: [
      {
        file: 'src/api/compat/register.ts',
        find: '  admitJoin(call, services, registration);\n',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { token } = await createProtocolPool(server, 'overdrawn', probesLoopback);
      let probes = 0;
      const formerAddress = await httpServer((_, reply) => {
        probes++;
        reply.end('alive');
      });
      const attacker = agentFieldClient(server.url, token);
      await attacker.register('moving', { ...readyFields, base_url: `http://127.0.0.1:${formerAddress.port}` });
      let place = 0;
      await until('the allowance to be used up', async () => {
        const answers = await Promise.all(names(5).map((name) => attacker.register(`${name}-${place}`, readyFields)));
        place++;
        return answers.some(({ body }) => body.code === 'write_limit_reached');
      });
      const probesBefore = probes;
      await attacker.register('moving', { ...readyFields, base_url: 'http://127.0.0.1:1' });
      return probes > probesBefore;
    },
  },
];
