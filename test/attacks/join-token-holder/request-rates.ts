/**
 * The holder of a join token calls a foreign protocol as often as it can. In these tests a burst is
 * limited to 30 calls of a token and to 600 calls of a machine.
 */
import { send } from '../../api/support/calls.ts';
import type { Attack } from '../support/attack.ts';
import { countRefused, createPoolWithToken } from '../support/floods.ts';

export const requestRateAttacks: Attack[] = [
  {
    name: 'lists the AgentField machines of its pool without a rate limit',
    without: [
      {
        file: 'src/api/compat/serve.ts',
        find: 'else if (admission.grant && !isMachineCall(route))',
        replace: 'else if (admission.grant && !isMachineCall(route) && false)',
      },
    ],
    async succeeds(server) {
      const bearer = await createPoolWithToken(server, 'listed');
      const refusedCount = await countRefused(60, () =>
        send(server.url, 'GET', '/compat/agentfield/api/v1/nodes', { bearer }),
      );
      return refusedCount === 0;
    },
  },
  {
    name: 'looks up unknown AgentField machines without a rate limit',
    without: [
      {
        file: 'src/api/compat/agentfield.ts',
        find: 'if (!session || isOtherClient(session)) services.rates',
        replace: 'if (false) services.rates',
      },
    ],
    async succeeds(server) {
      const bearer = await createPoolWithToken(server, 'absent');
      const api = '/compat/agentfield/api/v1/nodes';
      const refusedCount = await countRefused(60, (index) =>
        send(server.url, 'POST', `${api}/nobody-${index}/heartbeat`, { bearer, body: {} }),
      );
      return refusedCount === 0;
    },
  },
  {
    name: 'sends heartbeats of one AgentField machine without a rate limit',
    without: [
      {
        file: 'src/api/compat/agentfield.ts',
        find: "services.rates.admitKnown('instance', session.node_instance_id, operation);",
        replace: '',
      },
    ],
    async succeeds(server) {
      const bearer = await createPoolWithToken(server, 'calling');
      const api = '/compat/agentfield/api/v1/nodes';
      const registration = { id: 'caller', base_url: 'http://127.0.0.1:9', lifecycle_status: 'ready' };
      const { status, text } = await send(server.url, 'POST', `${api}/register`, { bearer, body: registration });
      if (status !== 201) throw new Error(`the machine was not registered: ${status} ${text}`);
      const pending = Array(700).fill(null).values();
      let refusedCount = 0;
      const beat = async () => {
        for (const _ of pending)
          if ((await send(server.url, 'POST', `${api}/caller/heartbeat`, { bearer, body: {} })).status === 429)
            refusedCount++;
      };
      await Promise.all(Array.from({ length: 8 }, beat));
      return refusedCount === 0;
    },
  },
];
