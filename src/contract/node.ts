/** Nodes on the wire, with their boot stages and logs. */
import { type Static, Type } from 'typebox';
import { nodeStatusNames } from '../lifecycle/model/states.ts';
import {
  Id,
  Labels,
  Moment,
  Name,
  nullable,
  OpenObject,
  PositiveSeconds,
  pageOf,
  paging,
  strict,
  Timestamp,
} from './primitives.ts';

export const budgetSources = ['allocation', 'learned', 'pool', 'class', 'default'] as const;
export type BudgetSource = (typeof budgetSources)[number];

export const Verdict = Type.Object(
  {
    rule: Type.String({ description: 'The name of the rule, or of the action that a person took.' }),
    reason: Type.String(),
    at: Timestamp,
    owner: Type.Optional(
      Type.String({
        description: 'Who has to act: a value of `owner_layer`, such as `node`, `provider` or `operator`.',
      }),
    ),
    from: Type.Optional(Type.String({ description: 'The status before the verdict.' })),
    certain: Type.Optional(
      Type.Boolean({
        description: 'The machine is known to have ended, or its launch failed for good, so waiting does not help.',
      }),
    ),
  },
  { $id: 'Verdict' },
);
export type Verdict = Static<typeof Verdict>;

/** A verdict that is held back, with the reason and the time. */
export const Held = Type.Object(
  {
    rule: Type.String(),
    to: Type.String({ description: 'The status that the verdict would lead to.' }),
    kind: Type.Enum(['self-fault', 'mass-failure', 'maintenance', 'provider-away']),
    hold: Type.String({
      description:
        'For `mass-failure`, the id of the hold of the brake; for `maintenance`, the name of the window; otherwise the same as `kind`.',
    }),
    reason: Type.String(),
    since: Timestamp,
    held_until: Timestamp,
  },
  { $id: 'Held' },
);
export type Held = Static<typeof Held>;

/** The verdict of a rule in an observe-only pool. */
export const WouldHave = Type.Object(
  { rule: Type.String(), to: Type.String(), reason: Type.String(), at: Timestamp },
  { $id: 'WouldHave' },
);
export type WouldHave = Static<typeof WouldHave>;

export const NodeStatusName = Type.Enum([...nodeStatusNames]);

export const Node = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: nullable(Type.String()),
    pool: Type.String(),
    name: Type.String(),
    zone: nullable(Type.String()),
    status: NodeStatusName,
    status_since: Timestamp,
    occupancy: Type.Enum(['free', 'reserved', 'occupied', 'cleanup']),
    fenced: Type.Boolean(),
    fence_reason: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    workflow_id: nullable(Type.String()),
    registered_at: nullable(Timestamp),
    agent_version: nullable(
      Type.String({ description: 'The program that registered this instance, with its version.' }),
    ),
    last_seen_at: nullable(Timestamp),
    deadline_at: nullable(Timestamp),
    budget_seconds: nullable(Type.Number()),
    budget_source: nullable(Type.Enum([...budgetSources])),
    endpoint: nullable(Type.String()),
    reported: nullable(OpenObject),
    observed: nullable(Type.Object({ state: Type.String(), at: Timestamp })),
    held: nullable(Held),
    verdict: nullable(Verdict),
    would_have: nullable(WouldHave),
    waiting_for: nullable(Type.String()),
    restarts: Type.Integer(),
    labels: Labels,
    created_at: Timestamp,
  },
  { $id: 'Node' },
);
export type Node = Static<typeof Node>;

/**
 * A node at a past moment: everything that transitions write. Of the machine's reports, it has only
 * the reported status; the timeline has all of them.
 */
export const NodeState = Type.Object(
  {
    at: Timestamp,
    cursor: Type.String({ description: 'The timeline cursor of the last fact that is part of this state.' }),
    ...Type.Omit(Node, ['occupancy', 'agent_version', 'last_seen_at', 'reported']).properties,
    reported_status: nullable(Type.String()),
  },
  { $id: 'NodeState' },
);
export type NodeState = Static<typeof NodeState>;
export const StateQuery = Type.Object({ at: Moment }, strict);

export const NodePage = pageOf(Node, 'NodePage');

export const NodeCreate = Type.Object(
  {
    pool: Name,
    name: Type.Optional(Name),
    provision_timeout_seconds: Type.Optional(PositiveSeconds),
    labels: Type.Optional(Labels),
  },
  { ...strict, $id: 'NodeCreate' },
);
export const NodeCreated = Type.Object({ node: Node, enrollment_token: Type.String() }, { $id: 'NodeCreated' });

export const NodeListQuery = Type.Object(
  {
    pool: Type.Optional(Name),
    status: Type.Optional(NodeStatusName),
    q: Type.Optional(Type.String({ maxLength: 128 })),
    held: Type.Optional(
      Type.Boolean({ description: 'True: only nodes with a held verdict. False: only nodes without one.' }),
    ),
    ids: Type.Optional(
      Type.String({
        maxLength: 8192,
        pattern: '^[A-Za-z0-9._:,-]+(_[A-Za-z0-9._:,-]+)*$',
        description: 'Only nodes with these ids, separated by commas.',
      }),
    ),
    sort: Type.Optional(Type.Enum(['newest', 'oldest'])),
    ...paging,
  },
  strict,
);

export const BootStage = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 128 }),
    seconds: Type.Number({ minimum: 0, maximum: 31_536_000 }),
    started_at: Type.Optional(Moment),
    parent: Type.Optional(Type.String({ maxLength: 128 })),
    starts_seconds: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 31_536_000,
        description:
          'When the stage started, in seconds from the start of the boot. For stages whose time of day is not known.',
      }),
    ),
  },
  strict,
);
export type BootStage = Static<typeof BootStage>;
export const BootQuery = Type.Object({ instance: Type.Optional(Id) }, strict);
export const Boot = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: nullable(Type.String()),
    stages: Type.Array(
      Type.Object({
        ...BootStage.properties,
        started_at: Type.Optional(Timestamp),
        starts_seconds: Type.Number({
          description:
            'When the stage started. A reported value counts seconds from the start of the boot. Otherwise the value counts seconds from the first stage, computed from the reported times or from the order of the stages.',
        }),
        usual_seconds: nullable(
          Type.Number({
            description: 'The median of the pool’s last boots; null until three boots have reported the stage.',
          }),
        ),
      }),
    ),
  },
  { $id: 'Boot' },
);

export type Boot = Static<typeof Boot>;

export const LogLine = Type.Object(
  {
    node_instance_id: Type.String(),
    seq: Type.Integer(),
    at: Timestamp,
    stream: Type.String(),
    line: Type.String(),
  },
  { $id: 'LogLine' },
);
export type LogLine = Static<typeof LogLine>;
export const LogPage = Type.Object(
  {
    ...pageOf(LogLine, '').properties,
    continue_at: nullable(
      Type.String({
        description:
          'Where to continue if the server stopped before the end of the log, because it reads a limited amount per call. Send it as `cursor`, or as `before` if `tail` is set. Null if the server reached the end, or if the page is full.',
      }),
    ),
  },
  { $id: 'LogPage' },
);
export type LogPage = Static<typeof LogPage>;
export const LogQuery = Type.Object(
  {
    instance: Type.Optional(Id),
    /** Only lines written while this allocation held the machine. */
    allocation_id: Type.Optional(Id),
    since: Type.Optional(Moment),
    q: Type.Optional(Type.String({ maxLength: 256 })),
    /** Waits up to 30 seconds for lines after `cursor` instead of returning an empty page. */
    follow: Type.Optional(Type.Boolean()),
    /** Returns the last lines, in the order they were written. */
    tail: Type.Optional(Type.Boolean()),
    /** With `tail`: the last lines before this position, from `continue_at` of an earlier page. */
    before: Type.Optional(Type.String({ maxLength: 512 })),
    ...paging,
  },
  strict,
);
