/** Explains a node's status: why, what happens next and when, and the available actions. */
import { type Static, Type } from 'typebox';
import { nodeActionNames } from '../../lifecycle/actions/actions.ts';
import { Allocation } from '../allocation.ts';
import { Evidence } from '../evidence/evidence.ts';
import { budgetSources, Held, Node, NodeStatusName, WouldHave } from '../node.ts';
import { Operation } from '../operation.ts';
import { Id, nullable, PositiveSeconds, Reason, strict, Timestamp } from '../primitives.ts';
import { Progress } from '../progress.ts';
import { Finding } from './finding.ts';

export const NodeActionName = Type.Enum([...nodeActionNames]);

export const OfferedAction = Type.Object(
  {
    action: NodeActionName,
    does: Type.String(),
    open: Type.Boolean(),
    why_not: nullable(Type.String()),
  },
  { $id: 'OfferedAction' },
);

/** The allocation that holds the machine, as far as it explains the node's status. */
const Holder = Type.Pick(Allocation, [
  'allocation_id',
  'name',
  'status',
  'status_since',
  'reason',
  'owner_layer',
  'release_tries',
  'retry_at',
]);
export type Holder = Static<typeof Holder>;

const NextStep = Type.Object({
  if: Type.String(),
  // biome-ignore lint/suspicious/noThenProperty: a name of the wire contract, never awaited.
  then: Type.String(),
  at: nullable(Timestamp),
});

export const Explanation = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: nullable(Type.String()),
    status: NodeStatusName,
    status_since: Timestamp,
    means: Type.String(),
    because: Type.Object({
      rule: nullable(Type.String({ description: 'The rule, report, operation or person that caused this status.' })),
      verdict: nullable(Type.String({ description: 'The reason of the verdict, in words.' })),
      owner: nullable(
        Type.String({ description: 'The layer that has to act, if the node does not work as it should.' }),
      ),
      at: Timestamp,
      evidence: Type.Array(Evidence),
    }),
    waiting_for: nullable(Type.String()),
    deadline_at: nullable(Timestamp),
    budget_seconds: nullable(Type.Number()),
    budget_source: nullable(Type.Enum([...budgetSources])),
    held: nullable(Held),
    would_have: nullable(WouldHave),
    next: Type.Array(NextStep),
    /** Of the running operation. */
    progress: nullable(Progress),
    slow_stages: Type.Array(
      Type.Object({
        name: Type.String(),
        seconds: Type.Number(),
        usual_seconds: nullable(Type.Number()),
        says: Type.String(),
      }),
    ),
    holder: nullable(Holder),
    residue: Type.Array(Type.String(), {
      description: 'Ids of open residue that a forced release left on the node.',
    }),
    findings: Type.Array(Finding, {
      description: 'Open findings about the node; while it boots, also that the boots of its pool have become slower.',
    }),
    actions: Type.Array(OfferedAction),
  },
  { $id: 'Explanation' },
);
export type Explanation = Static<typeof Explanation>;

export const OfferedActions = Type.Object({ items: Type.Array(OfferedAction) }, { $id: 'OfferedActions' });

export const NodeActionParams = Type.Object({ id: Id, action: NodeActionName }, strict);

/** Fields of every action request. */
export const actionFields = {
  reason: Reason,
  dry_run: Type.Optional(Type.Boolean({ description: 'Only predict the effect, and change nothing.' })),
  seconds: Type.Optional(PositiveSeconds),
  fingerprint: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{16}$',
      description:
        'accept-key: the fingerprint of the key to accept, as a dry run shows it. Without it, no key is accepted.',
    }),
  ),
};

/** Predicted effects of an action, besides the status. */
export const predictionFields = {
  deadline_at: nullable(Timestamp),
  says: Type.String(),
  fingerprint: Type.Optional(
    Type.String({ description: 'accept-key: the fingerprint of the key that the agent signs with now.' }),
  ),
};

export const NodeActionRequest = Type.Object(
  {
    ...actionFields,
    drain_then: Type.Optional(
      Type.Enum(['hold', 'retire'], {
        description: 'drain: what happens to the node once it is empty. hold, the default, quarantines it.',
      }),
    ),
  },
  { ...strict, $id: 'NodeActionRequest' },
);

/**
 * With `dry_run` the node is unchanged, and `predicts` describes the effect. `operation` is the
 * operation that was started.
 */
export const NodeActed = Type.Object(
  {
    node: Node,
    operation: nullable(Operation),
    dry_run: Type.Boolean(),
    enrollment_token: Type.Optional(
      Type.String({
        description: 're-enroll: the token for the agent on the machine. Shown once, and only in this reply.',
      }),
    ),
    predicts: Type.Object({ status: NodeStatusName, ...predictionFields }),
  },
  { $id: 'NodeActed' },
);
export type NodeActed = Static<typeof NodeActed>;
