/**
 * Calls of AgentField nodes (`{base}/api/v1`). Their node ids are our names; see
 * docs/how-to/compat-agentfield.md.
 */
import { type Static, Type } from 'typebox';
import { HttpUrlOrEmpty } from '../agent/agent.ts';
import { nullable } from '../primitives.ts';
import type { ProtocolRoute } from './protocol.ts';

const megabyte = 1024 * 1024;
const open = { additionalProperties: true } as const;
const Text = Type.String({ maxLength: 4096 });
const optionalText = Type.Optional(nullable(Text));
/** A list that is stored and never read, so only its type is checked. */
const optionalList = Type.Optional(nullable(Type.Array(Type.Unknown(), { maxItems: 4096 })));
const optionalObject = Type.Optional(nullable(Type.Object({}, open)));

export const NodeRegistration = Type.Object(
  {
    // AgentField accepts any text; an id that is not a valid name is converted to one.
    id: Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\u0000-\\u001f\\u007f]+$' }),
    base_url: Type.Optional(nullable(HttpUrlOrEmpty)),
    version: optionalText,
    team_id: optionalText,
    instance_id: optionalText,
    lifecycle_status: optionalText,
    health_status: optionalText,
    last_heartbeat: optionalText,
    registered_at: optionalText,
    reasoners: optionalList,
    skills: optionalList,
    communication_config: Type.Optional(
      nullable(
        Type.Object(
          { protocols: optionalList, websocket_endpoint: optionalText, heartbeat_interval: optionalText },
          open,
        ),
      ),
    ),
    features: optionalObject,
    metadata: optionalObject,
    callback_discovery: optionalObject,
  },
  open,
);
export type NodeRegistration = Static<typeof NodeRegistration>;

export const NodeBeat = Type.Object(
  {
    status: optionalText,
    health_score: Type.Optional(nullable(Type.Number())),
    timestamp: optionalText,
    version: optionalText,
    instance_id: optionalText,
    mcp_servers: optionalList,
  },
  open,
);
export type NodeBeat = Static<typeof NodeBeat>;

const LeaseRenewal = Type.Object(
  {
    phase: optionalText,
    version: optionalText,
    instance_id: optionalText,
    health_score: Type.Optional(nullable(Type.Number())),
  },
  open,
);
export type LeaseRenewal = Static<typeof LeaseRenewal>;

const LifecycleUpdate = Type.Object({ lifecycle_status: Text, instance_id: optionalText }, open);
export type LifecycleUpdate = Static<typeof LifecycleUpdate>;

const OpenBody = Type.Object({ instance_id: optionalText }, open);
export type OpenBody = Static<typeof OpenBody>;

const Status = Type.String({ description: 'starting, ready, degraded or offline' });
const moment = nullable(Type.String());
const Registered = Type.Object(
  {
    success: Type.Literal(true),
    message: Type.String(),
    node_id: Type.String(),
    id: Type.String(),
    lifecycle_status: Status,
  },
  { ...open, $id: 'AgentFieldRegistered' },
);
const Acknowledged = Type.Object(
  {
    success: Type.Literal(true),
    message: Type.String(),
    timestamp: Type.String(),
    lifecycle_status: Type.Optional(Status),
  },
  { ...open, $id: 'AgentFieldAcknowledged' },
);
const Lease = Type.Object(
  { lease_seconds: Type.Number(), next_lease_renewal: Type.String(), message: Type.String() },
  { ...open, $id: 'AgentFieldLease' },
);
const Listed = Type.Object(
  {
    id: Type.String(),
    base_url: Type.String(),
    lifecycle_status: Status,
    last_heartbeat: moment,
    registered_at: moment,
  },
  { ...open, $id: 'AgentFieldNode' },
);
const NodeList = Type.Object({ nodes: Type.Array(Listed), count: Type.Integer() }, { ...open, $id: 'AgentFieldNodes' });
const NodeStatus = Type.Object(
  { success: Type.Literal(true), node_id: Type.String(), status: Type.Object({ lifecycle_status: Status }, open) },
  { ...open, $id: 'AgentFieldStatus' },
);

const common = { protocol: 'agentfield', access: 'join' } as const;
/** The problems of every call that counts as a heartbeat. */
const beatProblems = [
  'credential_unknown',
  'node_not_found',
  'instance_fenced',
  'beats_slow_down',
  'node_fenced',
] as const;
const register = {
  body: NodeRegistration,
  body_limit_bytes: megabyte,
  problems: [...beatProblems, 'pool_not_found', 'pool_full', 'name_taken', 'identity_unproven', 'write_limit_reached'],
  success: 201,
  reply: Registered,
} as const;

export const agentfieldRoutes = {
  'agentfield-node-register': {
    ...common,
    ...register,
    method: 'POST',
    path: '/api/v1/nodes/register',
    summary: 'Register a node',
  },
  'agentfield-node-create': {
    ...common,
    ...register,
    method: 'POST',
    path: '/api/v1/nodes',
    summary: 'Register a node, as older clients call it',
  },
  'agentfield-node-heartbeat': {
    ...common,
    method: 'POST',
    path: '/api/v1/nodes/{id}/heartbeat',
    summary: 'Send a heartbeat, optionally with a status',
    body: NodeBeat,
    body_optional: true,
    problems: beatProblems,
    success: 200,
    reply: Acknowledged,
  },
  'agentfield-node-renew': {
    ...common,
    method: 'PATCH',
    path: '/api/v1/nodes/{id}/status',
    summary: 'Renew the lease of a node',
    body: LeaseRenewal,
    body_optional: true,
    problems: beatProblems,
    success: 200,
    reply: Lease,
  },
  'agentfield-node-lifecycle': {
    ...common,
    method: 'POST',
    path: '/api/v1/nodes/{id}/lifecycle/status',
    summary: 'Report the status of a node',
    body: LifecycleUpdate,
    problems: beatProblems,
    success: 200,
    reply: Acknowledged,
  },
  'agentfield-action-ack': {
    ...common,
    method: 'POST',
    path: '/api/v1/nodes/{id}/actions/ack',
    summary: 'Acknowledge an action; counts as a heartbeat',
    body: OpenBody,
    body_optional: true,
    problems: beatProblems,
    success: 200,
    reply: Lease,
  },
  'agentfield-node-shutdown': {
    ...common,
    method: 'POST',
    path: '/api/v1/nodes/{id}/shutdown',
    summary: 'Say goodbye',
    body: OpenBody,
    body_optional: true,
    problems: beatProblems,
    success: 202,
    reply: Acknowledged,
  },
  'agentfield-node-list': {
    ...common,
    method: 'GET',
    path: '/api/v1/nodes',
    summary: "The nodes of the token's pool",
    success: 200,
    reply: NodeList,
  },
  'agentfield-node-get': {
    ...common,
    method: 'GET',
    path: '/api/v1/nodes/{id}',
    summary: 'A node',
    problems: ['node_not_found'],
    success: 200,
    reply: Listed,
  },
  'agentfield-node-status': {
    ...common,
    method: 'GET',
    path: '/api/v1/nodes/{id}/status',
    summary: 'The status of a node',
    problems: ['node_not_found'],
    success: 200,
    reply: NodeStatus,
  },
} as const satisfies Record<string, ProtocolRoute>;
