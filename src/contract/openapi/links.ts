/** Links between operations: a value in one reply is a parameter of another call. */
import type { OperationName } from '../routes.ts';

interface Link {
  to: readonly OperationName[];
  parameters?: Readonly<Record<string, string>>;
  body?: Readonly<Record<string, string>>;
}

const allocation: Link = {
  to: ['allocation-get', 'allocation-actions', 'allocation-release', 'allocation-retry', 'allocation-certificate'],
  parameters: { id: '$response.body#/allocation/allocation_id' },
};
const operation: Link = {
  to: ['operation-get', 'operation-cancel', 'operation-retry'],
  parameters: { id: '$response.body#/operation/workflow_id' },
};

export const links: Partial<Record<OperationName, readonly Link[]>> = {
  'pool-put': [
    {
      to: [
        'pool-get',
        'pool-boots',
        'pool-what-if',
        'pool-budget',
        'join-token-create',
        'join-token-list',
        'pool-delete',
      ],
      parameters: { pool: '$response.body#/name' },
    },
    { to: ['allocation-create', 'node-create'], body: { pool: '$response.body#/name' } },
  ],
  'join-token-create': [
    {
      to: ['join-token-delete'],
      parameters: { pool: '$request.path.pool', id: '$response.body#/token_id' },
    },
  ],
  'allocation-create': [allocation, operation],
  'allocation-release': [allocation, operation],
  'allocation-retry': [allocation, operation],
  'node-create': [
    {
      to: [
        'node-get',
        'node-actions',
        'node-explain',
        'node-timeline',
        'node-checkup',
        'node-logs',
        'node-boot',
        'node-state',
        'node-ping',
        'node-act',
      ],
      parameters: { id: '$response.body#/node/node_id' },
    },
  ],
  'node-ping': [{ to: ['node-ping-get'], parameters: { id: '$request.path.id', task_id: '$response.body#/task_id' } }],
  'agent-ping': [{ to: ['agent-ping-get'], parameters: { task_id: '$response.body#/task_id' } }],
  'secret-put': [{ to: ['secret-delete'], parameters: { name: '$response.body#/name' } }],
  'maintenance-put': [{ to: ['maintenance-delete'], parameters: { name: '$response.body#/name' } }],
  'token-create': [{ to: ['token-delete'], parameters: { id: '$response.body#/token_id' } }],
};

/** The links of a reply in OpenAPI form, by target operation. */
export const linksOf = (operation: string): Record<string, object> =>
  Object.fromEntries(
    (links[operation as OperationName] ?? []).flatMap(({ to, parameters, body }) =>
      to.map((operationId) => [
        operationId,
        { operationId, ...(parameters && { parameters }), ...(body && { requestBody: body }) },
      ]),
    ),
  );
