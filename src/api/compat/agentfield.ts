/** Translates AgentField's calls to ours, and our answers back. Makes no decisions of its own. */
import { now, secondsLater } from '../../base/clock.ts';
import {
  type LeaseRenewal,
  type LifecycleUpdate,
  NodeBeat,
  type NodeRegistration,
  type OpenBody,
} from '../../contract/compat/agentfield.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Node } from '../../contract/node.ts';
import { type Pace, readDuration } from '../../lifecycle/deadlines/pace.ts';
import type { ReportedStatus } from '../../lifecycle/model/reports.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { AgentSession, ProtocolClient } from '../../store/agents/sessions/agent-sessions.ts';
import { readProtocolNodes } from '../../store/rows/nodes.ts';
import { acceptBeat } from '../heartbeats/accept-beat.ts';
import { requireSession } from './admit.ts';
import type { ProtocolCall, ProtocolHandler, ProtocolHandlers, ProtocolServices } from './calls.ts';
import { recordClientFact, recordNewFields } from './client-facts.ts';
import { omitFields, selectFields } from './kept-fields.ts';
import { idLabel, nameFor, namesFor } from './names.ts';
import { enrolByJoinToken } from './register.ts';

const protocol = 'agentfield';

/**
 * AgentField's words for a node's status. An unknown word changes no status and is stored as an
 * extra field of the heartbeat.
 */
const statuses: Record<string, ReportedStatus> = {
  starting: 'starting',
  ready: 'ready',
  degraded: 'degraded',
  offline: 'stopping',
  stopping: 'stopping',
};
const statusOf = (word: string | null | undefined): ReportedStatus | undefined => statuses[word?.toLowerCase() ?? ''];

const lifecycleOf: Record<NodeStatus, 'starting' | 'ready' | 'degraded' | 'offline'> = {
  provisioning: 'starting',
  starting: 'starting',
  ready: 'ready',
  degraded: 'degraded',
  offline: 'offline',
  failed: 'offline',
  draining: 'offline',
  cleaning: 'offline',
  quarantined: 'offline',
  retired: 'offline',
};
const healthOf = { starting: 'unknown', ready: 'active', degraded: 'active', offline: 'inactive' } as const;

/**
 * The lease of AgentField's own server. A client that renews its lease is not considered silent
 * before the lease ends.
 */
const leaseSeconds = 300;
const maxSaidBytes = 2048;

const unknownNodeProblem = (id: string) =>
  new ApiProblem('node_not_found', `No node ${id} is registered here; register it first.`);

const hasJoinedWith = (client: ProtocolClient | null, token_id: string): boolean =>
  client?.join_token_id === token_id || (client?.earlier_join_token_ids?.includes(token_id) ?? false);

/**
 * Finds the session of the instance that has this name. A process that was replaced must register
 * first.
 */
async function findNodeSession(
  call: ProtocolCall,
  services: ProtocolServices,
  client_process?: string | null,
): Promise<AgentSession> {
  const grant = call.grant();
  const find = async (): Promise<AgentSession | undefined> => {
    for (const name of namesFor(call.id)) {
      const candidate = await services.sessions.findByName({ protocol, pool: grant.pool, name });
      if (candidate) return candidate;
    }
    return undefined;
  };
  const isOtherClient = ({ protocol_client }: AgentSession) =>
    (client_process && protocol_client?.client_instance && protocol_client.client_instance !== client_process) ||
    (grant.is_limited && !hasJoinedWith(protocol_client, grant.token_id));
  const operation = call.request.operation ?? 'agentfield-node-heartbeat';
  let session = await find();
  // The machine is not identified yet, so charge the join token, which all machines of the pool may
  // share.
  if (!session || isOtherClient(session)) services.rates.admitKnown('join_token', grant.token_id, operation);
  if (session && isOtherClient(session)) {
    // The machine may just have registered with another replica.
    services.sessions.forget(session.node_instance_id);
    session = await find();
  }
  if (!session || isOtherClient(session)) throw unknownNodeProblem(call.id);
  call.request.agent_session = requireSession(session, protocol);
  services.rates.admitKnown('instance', session.node_instance_id, operation);
  return session;
}

const isScore = (score: number | null | undefined): score is number =>
  typeof score === 'number' && score >= 0 && score <= 100;

interface ClientReport {
  status?: ReportedStatus | undefined;
  health_score?: number | null | undefined;
  said?: Record<string, unknown>;
  pace: Pace;
}

async function acceptReport(
  session: AgentSession,
  report: ClientReport,
  services: ProtocolServices,
): Promise<'starting' | 'ready' | 'degraded' | 'offline'> {
  const { status, health_score, said = {}, pace } = report;
  const { node_status } = await acceptBeat(
    session,
    {
      ...(status && { status }),
      ...(isScore(health_score) && { health_score }),
      ...(Object.keys(said).length > 0 && { said: selectFields(said, maxSaidBytes) }),
    },
    services,
    pace,
  );
  return lifecycleOf[node_status];
}

const formatNow = (services: ProtocolServices) => now(services.clock).toISOString();

function clientVersion({ version, metadata }: NodeRegistration): string {
  const { deployment } = (metadata ?? {}) as { deployment?: { tags?: { sdk_version?: unknown; language?: unknown } } };
  const { sdk_version, language } = deployment?.tags ?? {};
  const sdk =
    typeof sdk_version === 'string' ? ` ${typeof language === 'string' ? `${language} ` : ''}${sdk_version}` : '';
  return `agentfield${sdk || ` ${version ?? 'unknown'}`}`.slice(0, 128);
}

const register: ProtocolHandler = async (call, services) => {
  const body = call.body as NodeRegistration;
  const name = nameFor(body.id);
  const registration = await enrolByJoinToken(
    call,
    services,
    {
      name,
      version: clientVersion(body),
      ...(body.base_url && { base_url: body.base_url }),
      ...(name !== body.id && { labels: { [idLabel]: body.id } }),
    },
    {
      protocol,
      announced_interval_seconds: readDuration(body.communication_config?.heartbeat_interval),
      client_instance: body.instance_id || null,
    },
  );
  const { node_id, node_instance_id } = registration;
  const { last_heartbeat: _, registered_at: __, ...stableFields } = body;
  const summary = `the client registered with the AgentField protocol as ${body.id}`;
  const ids = { node_id, node_instance_id, correlation_id: call.correlation_id };
  await recordClientFact(services, {
    ...ids,
    kind: 'client.registered',
    summary,
    said: body,
    dedupeKey: stableFields,
  });
  const session = await findNodeSession({ ...call, id: body.id }, services);
  const lifecycle_status = await acceptReport(
    session,
    { status: statusOf(body.lifecycle_status), pace: services.paces.afterRegistration(session) },
    services,
  );
  return {
    success: true,
    message: registration.first ? 'Node registered' : 'Node registered again',
    node_id: body.id,
    id: body.id,
    ...(body.base_url && { resolved_base_url: body.base_url }),
    lifecycle_status,
  };
};

const toAgentfieldNode = (node: Node) => {
  const lifecycle_status = lifecycleOf[node.status];
  return {
    id: node.labels[idLabel] ?? node.name,
    team_id: 'default',
    base_url: node.endpoint ?? '',
    health_status: healthOf[lifecycle_status],
    lifecycle_status,
    last_heartbeat: node.last_seen_at,
    registered_at: node.registered_at,
    reasoners: [],
    skills: [],
  };
};

async function readNode(call: ProtocolCall, services: ProtocolServices) {
  const grant = call.grant();
  await services.grants.mustHaveUses(grant);
  for (const name of namesFor(call.id)) {
    const [node] = await readProtocolNodes(services.db, { pool: grant.pool, protocol, name });
    if (node) return toAgentfieldNode(node);
  }
  throw unknownNodeProblem(call.id);
}

export const agentfieldHandlers: ProtocolHandlers<'agentfield'> = {
  'agentfield-node-register': register,
  'agentfield-node-create': register,
  async 'agentfield-node-heartbeat'(call, services) {
    const { status: word, health_score, instance_id, ...said } = call.body as NodeBeat;
    const session = await findNodeSession(call, services, instance_id);
    const status = statusOf(word);
    const extraFields = { ...(word && !status && { status: word }), ...(!isScore(health_score) && { health_score }) };
    await recordNewFields(services, session, call, Object.keys(NodeBeat.properties));
    const lifecycle_status = await acceptReport(
      session,
      {
        status,
        health_score,
        said: omitFields({ ...said, ...extraFields }, []),
        pace: services.paces.afterBeat(session),
      },
      services,
    );
    return { success: true, message: 'Heartbeat received', timestamp: formatNow(services), lifecycle_status };
  },
  async 'agentfield-node-renew'(call, services) {
    const { phase, health_score, instance_id, ...said } = call.body as LeaseRenewal;
    const session = await findNodeSession(call, services, instance_id);
    const extraFields = omitFields({ ...said, ...(phase && !statusOf(phase) && { phase }) }, []);
    const pace = services.paces.afterBeat(session, leaseSeconds);
    await acceptReport(session, { status: statusOf(phase), health_score, said: extraFields, pace }, services);
    const next_lease_renewal = secondsLater(now(services.clock), leaseSeconds / 2).toISOString();
    return { lease_seconds: leaseSeconds, next_lease_renewal, message: 'Lease renewed' };
  },
  async 'agentfield-node-lifecycle'(call, services) {
    const { lifecycle_status: word, instance_id, ...said } = call.body as LifecycleUpdate;
    const session = await findNodeSession(call, services, instance_id);
    const status = statusOf(word);
    const extraFields = omitFields({ ...said, ...(!status && { lifecycle_status: word }) }, []);
    const lifecycle_status = await acceptReport(
      session,
      { status, said: extraFields, pace: services.paces.afterBeat(session) },
      services,
    );
    return { success: true, message: 'Status noted', lifecycle_status, timestamp: formatNow(services) };
  },
  async 'agentfield-action-ack'(call, services) {
    const { instance_id, ...said } = call.body as OpenBody;
    const session = await findNodeSession(call, services, instance_id);
    const pace = services.paces.afterBeat(session, leaseSeconds);
    await acceptReport(session, { said: omitFields(said, []), pace }, services);
    const next_lease_renewal = secondsLater(now(services.clock), leaseSeconds / 2).toISOString();
    return { success: true, message: 'Acknowledged', lease_seconds: leaseSeconds, next_lease_renewal };
  },
  async 'agentfield-node-shutdown'(call, services) {
    const { instance_id, ...said } = call.body as OpenBody;
    const session = await findNodeSession(call, services, instance_id);
    const pace = services.paces.afterBeat(session);
    await acceptReport(session, { status: 'stopping', said: omitFields(said, []), pace }, services);
    return { success: true, message: 'Goodbye noted', node_id: call.id, timestamp: formatNow(services) };
  },
  async 'agentfield-node-list'(call, services) {
    const grant = call.grant();
    await services.grants.mustHaveUses(grant);
    const nodes = (await readProtocolNodes(services.db, { pool: grant.pool, protocol })).map(toAgentfieldNode);
    return { nodes, count: nodes.length, filters: {} };
  },
  'agentfield-node-get': readNode,
  async 'agentfield-node-status'(call, services) {
    const { id, ...status } = await readNode(call, services);
    const { lifecycle_status, health_status, last_heartbeat } = status;
    return {
      success: true,
      node_id: id,
      status: { state: lifecycle_status, lifecycle_status, health_status, last_heartbeat },
    };
  },
};
