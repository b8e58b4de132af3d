/** The holder of a join token asks as often as it can through a foreign protocol. The rate of a token is 30 calls here. */
import { send } from '../../api/support/calls.ts';
import type { Attack } from '../support/attack.ts';
import { joinToken, refusedOf } from '../support/floods.ts';

export const requestRateAttacks: Attack[] = [
  {
    name: '5: lists the AgentField machines of its pool as often as it likes',
    without: [
      {
        file: 'src/api/compat/serve.ts',
        find: 'else if (whom.joined && !isOfMachine(route))',
        replace: 'else if (whom.joined && !isOfMachine(route) && false)',
      },
    ],
    async succeeds(server) {
      const bearer = await joinToken(server, 'listed');
      const refused = await refusedOf(60, () => send(server.url, 'GET', '/compat/agentfield/api/v1/nodes', { bearer }));
      return refused === 0;
    },
  },
];
