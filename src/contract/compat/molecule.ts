/**
 * Calls of molecule workspaces and their watchers. A workspace's id is the name of our node; see
 * docs/how-to/compat-molecule.md.
 */
import { type Static, Type } from 'typebox';
import { HttpUrlOrEmpty } from '../agent/agent.ts';
import { nullable } from '../primitives.ts';
import type { ProtocolRoute } from './protocol.ts';

const open = { additionalProperties: true } as const;
const Uuid = Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' });
const optionalText = Type.Optional(nullable(Type.String({ maxLength: 16_384 })));
const optionalNumber = Type.Optional(nullable(Type.Number()));
const Card = Type.Object({}, open);

export const WorkspaceRegistration = Type.Object(
  { id: Uuid, url: Type.Optional(nullable(HttpUrlOrEmpty)), agent_card: Type.Optional(nullable(Card)) },
  open,
);
export type WorkspaceRegistration = Static<typeof WorkspaceRegistration>;

export const WorkspaceBeat = Type.Object(
  {
    workspace_id: Uuid,
    error_rate: optionalNumber,
    sample_error: optionalText,
    active_tasks: optionalNumber,
    current_task: optionalText,
    uptime_seconds: optionalNumber,
    monthly_spend: optionalNumber,
    runtime_state: optionalText,
    runtime_metadata: Type.Optional(nullable(Card)),
  },
  open,
);
export type WorkspaceBeat = Static<typeof WorkspaceBeat>;

const CardUpdate = Type.Object({ workspace_id: Uuid, agent_card: Card }, open);
export type CardUpdate = Static<typeof CardUpdate>;

export const BootstrapFailure = Type.Object(
  {
    error: Type.String({ minLength: 1, maxLength: 4096 }),
    log_tail: Type.Optional(nullable(Type.String({ maxLength: 65_536 }))),
  },
  open,
);
export type BootstrapFailure = Static<typeof BootstrapFailure>;

const Answer = Type.Object(
  { status: Type.String(), auth_token: Type.Optional(Type.String()) },
  { ...open, $id: 'MoleculeAnswer' },
);

const common = { protocol: 'molecule', method: 'POST', success: 200, reply: Answer } as const;
const beatProblems = ['beats_slow_down', 'node_fenced', 'write_limit_reached'] as const;

export const moleculeRoutes = {
  'molecule-workspace-register': {
    ...common,
    path: '/registry/register',
    summary: 'Register a workspace; the token in the reply is shown once',
    access: 'either',
    problems: [...beatProblems, 'pool_not_found', 'pool_full', 'name_taken', 'identity_unproven'],
    body: WorkspaceRegistration,
  },
  'molecule-workspace-heartbeat': {
    ...common,
    path: '/registry/heartbeat',
    summary: 'Send a heartbeat with the state of the work',
    access: 'instance',
    problems: beatProblems,
    body: WorkspaceBeat,
  },
  'molecule-card-update': {
    ...common,
    path: '/registry/update-card',
    summary: 'Update the agent card',
    access: 'instance',
    problems: beatProblems,
    body: CardUpdate,
  },
  'molecule-bootstrap-failed': {
    ...common,
    path: '/admin/workspaces/{id}/bootstrap-failed',
    summary: 'Report a failed boot, as a watcher saw it',
    access: 'join',
    problems: ['node_not_found'],
    body: BootstrapFailure,
  },
} as const satisfies Record<string, ProtocolRoute>;
