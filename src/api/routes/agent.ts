/**
 * Handles the calls of agents: registration, heartbeats, logs, boot stages, prerequisites, facts
 * and credentials.
 */
import { now } from '../../base/clock.ts';
import { readBundle } from '../../base/files/agent-bundle.ts';
import { maxShippedLines, ShippedLine } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import type { BootStage } from '../../contract/node.ts';
import { isBeatRefusal } from '../../lifecycle/findings/refused-beats.ts';
import { storeBootStages } from '../../store/agents/boot-stages.ts';
import { isSignedByTrustedKey, reissueCredential } from '../../store/agents/credentials/reissue.ts';
import { rotateCredential } from '../../store/agents/credentials/rotate.ts';
import { instanceRow } from '../../store/agents/instances.ts';
import { reportPrerequisites } from '../../store/agents/prerequisites.ts';
import { register } from '../../store/agents/register.ts';
import { recordOutsideFacts } from '../../store/evidence/evidence.ts';
import { readLastStoredSeq } from '../../store/logs/node-logs.ts';
import { nodeRow } from '../../store/rows/nodes.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import { acceptBatch, relaySource, reportRefusedBatch } from '../heartbeats/accept-batch.ts';
import { acceptSingleBeat } from '../heartbeats/accept-beat.ts';
import { bearerOf, identifyRelay, RelayRefused } from '../http/auth.ts';
import { sourceNetwork } from '../http/source-address.ts';
import { compileCheck } from '../http/validation.ts';
import type { LookupSource } from '../limits/quotas/request-rates.ts';
import { instanceWriter, registrationCost, registrationWriter } from '../limits/quotas/writers.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { refuseReservedKinds } from './reserved-kinds.ts';

const checkLine = compileCheck(ShippedLine, 'body');
/**
 * Tolerates small clock differences. A boot stage further in the future would be misplaced on the
 * node's timeline.
 */
const maxAheadMs = 5 * 60_000;

function refuseFutureStages(stages: BootStage[], path: string, services: ApiServices): void {
  const latestMs = services.clock.nowMs() + maxAheadMs;
  const index = stages.findIndex(({ started_at }) => started_at !== undefined && Date.parse(started_at) > latestMs);
  const stage = stages[index];
  if (!stage) return;
  const errorPath = `${path}/${index}/started_at`;
  throw new ApiProblem('claim_from_future', {
    detail: `Boot stage ${stage.name} started at ${stage.started_at}, but the server's clock shows ${now(services.clock).toISOString()}.`,
    errors: [{ path: errorPath, message: 'must not be more than 5 minutes ahead' }],
  });
}

function parseLines(body: unknown): ShippedLine[] {
  const text = typeof body === 'string' ? body : '';
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) throw new ApiProblem('invalid_request', 'Send at least one line of NDJSON.');
  if (lines.length > maxShippedLines)
    throw new ApiProblem('body_too_large', `Send at most ${maxShippedLines} lines at once.`);
  return lines.map((line) => {
    let parsed: unknown;
    try {
      parsed = JSON.parse(line);
    } catch (error) {
      throw new ApiProblem('malformed_json', {
        detail: `A line is not JSON: ${error instanceof Error ? error.message : ''}`,
      });
    }
    return checkLine(parsed) as ShippedLine;
  });
}

/** A fenced instance is refused as fenced even if its lines are invalid. */
function parseLinesOfFenced(body: unknown, reason: string): ShippedLine[] {
  try {
    return parseLines(body);
  } catch (error) {
    throw error instanceof ApiProblem ? fencedProblem(reason) : error;
  }
}

const taskKeysWire = ({ installation }: ApiServices) => ({
  task_keys: installation.task_keys,
  former_task_keys: installation.former_task_keys,
  task_key_refresh_seconds: installation.task_key_refresh_seconds,
});

/**
 * A fenced agent ends its workload. After a restore the stored fences may be out of date, so the
 * agent is asked to retry later instead.
 */
const retryInsteadOfFence = (error: unknown): unknown =>
  error instanceof ApiProblem && error.code === 'instance_fenced'
    ? new ApiProblem('enrollment_pending', { retry_after_seconds: 30 })
    : error;

type AgentRoutes =
  | 'agent-bundle'
  | 'agent-register'
  | 'agent-heartbeat'
  | 'agent-heartbeats'
  | 'agent-logs'
  | 'agent-boot'
  | 'agent-prerequisites'
  | 'agent-evidence'
  | 'agent-credential-rotate'
  | 'agent-credential-reissue'
  | 'agent-task-keys';

export const agentHandlers: Pick<Handlers, AgentRoutes> = {
  async 'agent-bundle'({ query, reply }, { settings }) {
    const bundle = await readBundle(settings.agent_bundle, query?.sha256);
    if (!bundle)
      throw new ApiProblem(
        'not_found',
        query?.sha256
          ? 'This server has no agent with that SHA-256; another replica may have it.'
          : 'This server was started without the agent: run node scripts/setup.mjs on its host.',
      );
    await reply.type('text/javascript; charset=utf-8').send(bundle);
    return undefined;
  },
  async 'agent-register'({ body, request, reply, correlation_id }, services) {
    const at = now(services.clock);
    refuseFutureStages(body.boot?.stages ?? [], '/body/boot/stages', services);
    const credential = bearerOf(request);
    const instance = credential ? await services.sessions.readInstance(credential, at) : undefined;
    if (credential !== undefined && !instance) throw new ApiProblem('credential_unknown');
    const { credential_age } = services;
    if (
      instance?.credential_expires_at &&
      credential_age.isExpired(Math.floor(instance.credential_expires_at.getTime() / 1000))
    )
      throw new ApiProblem('credential_expired');
    const { writeLimits, db } = services;
    const writer = registrationWriter(request, body, instance, services);
    const registration = await writeLimits.whileReserved(writer, registrationCost, () =>
      register(db, body, instance, {
        account: { charge: (rows, bytes) => writeLimits.charge(writer, rows, bytes) },
        clock: services.clock,
        now: at,
        environment: services.environment,
        installation: services.installation,
        correlation_id,
        credential_expires_at: body.rotates_credential ? credential_age.expiryFrom(at) : null,
      }).catch((error: unknown) => {
        throw services.restoration.isObserving() ? retryInsteadOfFence(error) : error;
      }),
    );
    if (body.boot)
      await storeBootStages(
        writeLimits.database(db, instanceWriter(registration)),
        { ...registration, correlation_id },
        body.boot.stages,
        at,
        services.environment,
      );
    services.sessions.forget(registration.node_instance_id);
    if (!registration.first) reply.status(200);
    const log_acknowledged_seq = registration.first
      ? 0
      : await readLastStoredSeq(services.db, registration.node_instance_id);
    return {
      node_id: registration.node_id,
      node_instance_id: registration.node_instance_id,
      ...(registration.credential && { credential: registration.credential }),
      credential_expires_at: registration.credential_expires_at?.toISOString() ?? null,
      ...taskKeysWire(services),
      heartbeat_interval_seconds: registration.heartbeat_interval_seconds,
      deadline_at: registration.deadline_at?.toISOString() ?? null,
      requires: registration.requires,
      log_acknowledged_seq,
    };
  },
  'agent-heartbeat': ({ agent, body }, services) => acceptSingleBeat(agent(), body ?? {}, services),
  async 'agent-heartbeats'({ body, request }, services) {
    const address: LookupSource = { kind: 'address', id: sourceNetwork(request) };
    const findRelay = async () => {
      try {
        return await identifyRelay(request, services);
      } catch (error) {
        if (error instanceof RelayRefused && isBeatRefusal(error.code))
          await reportRefusedBatch(body.beats, { relay: error.relay, code: error.code, source: address }, services);
        throw error;
      }
    };
    const relay = request.relay ?? (await findRelay());
    return {
      results: await acceptBatch(body.beats, { relay, source: relay ? relaySource(relay) : address }, services),
    };
  },
  async 'agent-logs'({ agent, request }, services) {
    const session = agent();
    const { fence } = session;
    const lines = fence.kind === 'fenced' ? parseLinesOfFenced(request.body, fence.reason) : parseLines(request.body);
    const acknowledged_seq = await services.logs.store(session, lines);
    services.arrivals.announce(session.node_id);
    // The lines of a fenced instance are stored, but only the fleet's operators can see them: they
    // may belong to another tenant than the current one.
    if (fence.kind === 'fenced') throw fencedProblem(fence.reason, { acknowledged_seq });
    return { acknowledged_seq };
  },
  async 'agent-boot'({ agent, body }, services) {
    refuseFutureStages(body.stages, '/body/stages', services);
    await storeBootStages(services.db, agent(), body.stages, now(services.clock), services.environment);
    return { ok: true };
  },
  async 'agent-prerequisites'({ agent, body }, services) {
    const session = agent();
    const { node_id, node_instance_id } = session;
    const status = await reportPrerequisites(
      services.db,
      { node_id, node_instance_id },
      body.results,
      now(services.clock),
      services.environment,
    );
    if (!status) throw fencedProblem(await services.sessions.forgetFenced(node_instance_id));
    session.node_status = status;
    return { ok: true };
  },
  async 'agent-evidence'({ agent, body, correlation_id }, services) {
    refuseReservedKinds(body.facts);
    const { node_id, node_instance_id } = agent();
    const nodeCorrelationId = (await nodeRow(services.db, node_id))?.correlation_id;
    const facts = body.facts.map((fact) => ({
      at: now(services.clock),
      layer: fact.layer,
      kind: fact.kind,
      summary: fact.summary,
      data: { ...fact.data, reported_at: fact.at },
      node_id,
      node_instance_id,
      correlation_id: nodeCorrelationId ?? correlation_id,
    }));
    // Look up the allocation that holds the node now: the cached session may still name the former
    // one, whose tenant must not see these facts.
    await services.db.transaction(async (tx) => {
      await fillAllocationIds(tx, facts);
      await recordOutsideFacts(tx, 'node', facts);
    });
    return { ok: true };
  },
  async 'agent-credential-rotate'({ agent, body, request, correlation_id }, services) {
    const at = now(services.clock);
    const expires_at = services.credential_age.expiryFrom(at);
    const credential = await rotateCredential(services.db, {
      node_instance_id: agent().node_instance_id,
      credential: bearerOf(request) ?? '',
      signature: body?.signature,
      expires_at,
      now: at,
      correlation_id,
    });
    return { credential, credential_expires_at: expires_at?.toISOString() ?? null };
  },
  async 'agent-credential-reissue'({ body, request, correlation_id }, services) {
    const { db, rates, writeLimits, credential_age } = services;
    const endLookup = rates.beginLookup({ kind: 'address', id: sourceNetwork(request) }, 1);
    if (!endLookup)
      throw new ApiProblem('rate_limited', {
        detail: 'This address sent too many unknown credentials and signatures.',
        retry_after_seconds: 60,
      });
    let isIssued = false;
    try {
      const instance = await instanceRow(db, body.node_instance_id);
      const isSigned = isSignedByTrustedKey(instance, body);
      // The record of the refusal names the machine, the reply does not.
      if (instance) request.touched = { node_id: instance.node_id, node_instance_id: instance.node_instance_id };
      if (!instance || !isSigned) throw new ApiProblem('reissue_refused');
      // Counted apart from rotations, so that a repeated request cannot use up theirs.
      rates.admitKnown('rotation', `reissue ${instance.node_instance_id}`, 'agent-credential-reissue');
      const at = now(services.clock);
      const expires_at = credential_age.expiryFrom(at);
      const credential = await reissueCredential(writeLimits.database(db, instanceWriter(instance)), {
        instance,
        request: body,
        expires_at,
        now: at,
        correlation_id,
      });
      isIssued = true;
      return { credential, credential_expires_at: expires_at?.toISOString() ?? null };
    } finally {
      endLookup(isIssued ? 0 : 1);
    }
  },
  'agent-task-keys': async (_, services) => taskKeysWire(services),
};
