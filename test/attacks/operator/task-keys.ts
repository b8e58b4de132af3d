/** An operator tries to rotate the key that signs tasks, which only an admin may do. */
import { RequestRefused } from '../../../src/contract/client.ts';
import type { Attack } from '../support/attack.ts';

export const taskKeyAttacks: Attack[] = [
  {
    name: 'task keys: rotates the key that signs tasks as an operator',
    without: [
      {
        file: 'src/contract/routes/server.ts',
        find: "access: admin,\n    problems: ['task_key_pending'],",
        replace: "access: fleetOperator,\n    problems: ['task_key_pending'],",
      },
    ],
    async succeeds({ client, as }) {
      const { token } = await client.call('token-create', { body: { name: 'rotates-tasks', role: 'operator' } });
      try {
        await as(token ?? '').call('task-key-rotate', {});
        return true;
      } catch (error) {
        if (error instanceof RequestRefused) return false;
        throw error;
      }
    },
  },
];
