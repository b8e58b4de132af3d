/**
 * Translates molecule's calls to ours. The token that a workspace got with its first registration
 * identifies its instance.
 */
import { now } from '../../base/clock.ts';
import {
  type BootstrapFailure,
  type CardUpdate,
  WorkspaceBeat,
  type WorkspaceRegistration,
} from '../../contract/compat/molecule.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { ReportedStatus } from '../../lifecycle/model/reports.ts';
import { reportBootFailure } from '../../operations/provision/boot-failure-report.ts';
import { instanceRow } from '../../store/agents/instances.ts';
import { isNameHeld } from '../../store/agents/joins/known-names.ts';
import { readNameStanding } from '../../store/agents/joins/name-standing.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { acceptBeat } from '../heartbeats/accept-beat.ts';
import { sourceAddress } from '../http/source-address.ts';
import type { ProtocolCall, ProtocolHandlers, ProtocolServices } from './calls.ts';
import { recordClientFact, recordNewFields } from './client-facts.ts';
import { omitFields, selectFields } from './kept-fields.ts';
import { admitJoin, type ClientRegistration, enrol } from './register.ts';
import { mustBeRestart } from './restart.ts';

const protocol = 'molecule';

/** molecule runtimes send heartbeats at this interval but do not announce it. */
const beatsEverySeconds = 30;
const maxSaidBytes = 4096;
const maxLogTailLength = 8192;
const parsedFields = ['workspace_id', 'error_rate', 'active_tasks'];
/** Limits in the schema of our own heartbeats. */
const maxTasks = 1_000_000;
const maxMessageLength = 1024;

/** A workspace's token is valid for that workspace only. */
function requireWorkspace(session: AgentSession | null, id: string): AgentSession {
  if (!session || session.protocol_client?.name !== id.toLowerCase())
    throw new ApiProblem('credential_mismatch', `This auth_token does not belong to the workspace ${id}.`);
  return session;
}

/** A heartbeat reports ready unless the runtime is wedged. Rules judge the error rate. */
const statusOf = ({ runtime_state }: WorkspaceBeat): ReportedStatus =>
  runtime_state === 'wedged' ? 'degraded' : 'ready';

async function registerWorkspace(call: ProtocolCall, services: ProtocolServices, registration: ClientRegistration) {
  const client = { protocol, announced_interval_seconds: beatsEverySeconds, client_instance: null } as const;
  if (call.session) {
    const session = requireWorkspace(call.session, registration.name);
    const known = await instanceRow(services.db, session.node_instance_id);
    return enrol(call, services, registration, known, { ...client, join_token_id: null });
  }
  const { pool, secret: join_token, token_id: join_token_id } = call.grant();
  admitJoin(call, services, registration);
  const standing = await readNameStanding(services.db, { pool, name: registration.name });
  if (standing?.protocol === protocol && isNameHeld(standing.status))
    throw new ApiProblem(
      'token_missing',
      'This workspace is registered: send the auth_token of its first registration as bearer.',
    );
  const source = sourceAddress(call.request);
  const claimant = {
    protocol,
    client_instance: null,
    join_token_id,
    base_url: registration.base_url ?? null,
    source,
  } as const;
  const judgedReturn = standing && (await mustBeRestart(standing, claimant, services));
  const arrival = { ...client, join_token_id, ...judgedReturn };
  return enrol(call, services, { ...registration, join_token }, undefined, arrival);
}

export const moleculeHandlers: ProtocolHandlers<'molecule'> = {
  async 'molecule-workspace-register'(call, services) {
    const body = call.body as WorkspaceRegistration;
    const name = body.id.toLowerCase();
    const registration = await registerWorkspace(call, services, {
      name,
      version: 'molecule',
      ...(body.url && { base_url: body.url }),
    });
    const { node_id, node_instance_id, credential } = registration;
    const ids = { node_id, node_instance_id, correlation_id: call.correlation_id };
    const summary = `the client registered with the molecule protocol as ${body.id}`;
    await recordClientFact(services, { ...ids, kind: 'client.registered', summary, said: body, dedupeKey: body });
    const session = credential ? await services.sessions.find(credential, now(services.clock)) : call.session;
    if (session) await acceptBeat(session, {}, services, services.paces.afterRegistration(session));
    return { status: 'registered', ...(credential && { auth_token: credential }) };
  },
  async 'molecule-workspace-heartbeat'(call, services) {
    const body = call.body as WorkspaceBeat;
    const session = requireWorkspace(call.session, body.workspace_id);
    const { error_rate, active_tasks, sample_error } = body;
    const isRate = typeof error_rate === 'number' && error_rate >= 0 && error_rate <= 1;
    const isCount = Number.isInteger(active_tasks) && Number(active_tasks) >= 0 && Number(active_tasks) <= maxTasks;
    const said = selectFields(
      { ...omitFields(body, parsedFields), ...(!isRate && omitFields({ error_rate }, [])) },
      maxSaidBytes,
    );
    await recordNewFields(services, session, call, Object.keys(WorkspaceBeat.properties));
    await acceptBeat(
      session,
      {
        status: statusOf(body),
        ...(isRate && { error_rate }),
        ...(isCount && { active_tasks: Number(active_tasks) }),
        ...(sample_error && { message: sample_error.slice(0, maxMessageLength) }),
        ...(Object.keys(said).length > 0 && { said }),
      },
      services,
      services.paces.afterBeat(session),
    );
    return { status: 'ok' };
  },
  async 'molecule-card-update'(call, services) {
    const { workspace_id, agent_card, ...rest } = call.body as CardUpdate;
    const session = requireWorkspace(call.session, workspace_id);
    const { node_id, node_instance_id } = session;
    await recordClientFact(services, {
      ...{ node_id, node_instance_id, correlation_id: call.correlation_id },
      kind: 'client.said',
      summary: 'the client reported a new agent card',
      said: { agent_card, ...rest },
      dedupeKey: agent_card,
    });
    await acceptBeat(session, {}, services, services.paces.afterRegistration(session));
    return { status: 'updated' };
  },
  async 'molecule-bootstrap-failed'(call, services) {
    const { error, log_tail } = call.body as BootstrapFailure;
    const grant = call.grant();
    await services.grants.mustHaveUses(grant);
    const node = await readNameStanding(services.db, { pool: grant.pool, name: call.id.toLowerCase() });
    // This call is for machines of this protocol only; machines with our agent have a boot watcher.
    if (node?.protocol !== protocol) throw new ApiProblem('node_not_found', `There is no workspace ${call.id}.`);
    const tail = (log_tail ?? '').slice(-maxLogTailLength);
    await reportBootFailure(services, node.node_id, { error, log_tail: tail }, call.correlation_id);
    return { status: 'ok' };
  },
};
