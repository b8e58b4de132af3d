/**
 * Handles checkups and pings for doctor. The server makes the verdicts, so that every caller gets
 * the same ones.
 */
import { now } from '../../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { findError } from '../../contract/errors/find-error.ts';
import { ownerLayers } from '../../contract/errors/problem.ts';
import type { Checkup, LayerCheck, Ping } from '../../contract/supervision/checkup.ts';
import { type CheckedLayer, checkNode, isPingOver } from '../../lifecycle/explain/checkup.ts';
import { isFenced, nodeStatuses } from '../../lifecycle/model/states.ts';
import { type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import { type PingResult, queuePing, readPing } from '../../operations/actions/ping-now.ts';
import { hasAgent } from '../../store/agents/instances.ts';
import { joinedRow, type NodeRow, readNode } from '../../store/rows/nodes.ts';
import { readGenerationDocument } from '../../store/rows/pools.ts';
import type { ApiServices, Call, Handlers } from '../services.ts';

const layerCheckWire = ({ layer, ok, code, detail, owner }: CheckedLayer): LayerCheck => {
  const entry = code === null ? null : findError(code);
  return {
    layer,
    ok,
    code,
    owner_layer: entry && (ownerLayers.find((each) => each === owner) ?? entry.owner_layer),
    detail_layer: entry?.detail_layer ?? (entry ? layer : null),
    detail,
  };
};

/** Works before the machine exists: the pool's driver decides whether an agent will run. */
async function isAgentless(node: NodeRow, { db, drivers }: ApiServices): Promise<boolean> {
  const pool = await readGenerationDocument(db, node.pool, node.pool_generation);
  if (drivers.get(pool?.driver ?? '')?.supervision === 'agentless') return true;
  return node.node_instance_id !== null && !(await hasAgent(db, node.node_instance_id as NodeInstanceId));
}

async function readCheckup(id: string, services: ApiServices): Promise<Checkup> {
  const node = await joinedRow(services.db, id, wholeFleet);
  if (!node) throw new ApiProblem('node_not_found');
  const at = now(services.clock);
  const agentless = await isAgentless(node, services);
  const fence_reason = isFenced(node.status) ? (node.verdict?.reason ?? nodeStatuses[node.status].means) : null;
  return {
    node_id: node.node_id,
    node_instance_id: node.node_instance_id,
    node_status: node.status,
    at: at.toISOString(),
    checks: checkNode({ ...node, fence_reason, agentless }, at).map(layerCheckWire),
  };
}

const pingWire = ({ task, checks }: PingResult): Ping => ({
  task_id: task.task_id,
  node_id: task.node_id,
  node_instance_id: task.node_instance_id,
  expires_at: task.expires_at.toISOString(),
  over: isPingOver(checks),
  checks: checks.map(layerCheckWire),
});

/** Waits until the ping ends or expires, but no longer than the caller asked for. */
async function followPing(
  { request, reply }: Pick<Call<'agent-ping-get'>, 'request' | 'reply'>,
  services: ApiServices,
  task_id: string,
  node_instance_id: string,
  wait_seconds: number,
): Promise<Ping> {
  const until_ms = services.clock.nowMs() + wait_seconds * 1000;
  let ping = await readPing(services, task_id, node_instance_id);
  while (!isPingOver(ping.checks) && !request.raw.destroyed && !services.longPolls.areClosing()) {
    const remaining_ms = Math.min(until_ms, ping.task.expires_at.getTime()) - services.clock.nowMs();
    if (until_ms <= services.clock.nowMs()) break;
    // Subscribe before reading, so that an answer in between is not missed.
    const nextFact = services.longPolls.waitForFact(
      reply.raw,
      Math.max(1, remaining_ms),
      (fact) => fact.data.task_id === task_id,
    );
    ping = await readPing(services, task_id, node_instance_id);
    if (isPingOver(ping.checks)) break;
    await nextFact;
    ping = await readPing(services, task_id, node_instance_id);
  }
  return pingWire(ping);
}

async function mustFindNode(id: string, visibility: Visibility, services: ApiServices) {
  const node = await readNode(services.db, id, visibility);
  if (!node) throw new ApiProblem('node_not_found');
  return node;
}

const requireInstanceId = (node: { node_instance_id: string | null }): string => {
  if (node.node_instance_id === null) throw new ApiProblem('action_illegal', 'The node has no instance to ping.');
  return node.node_instance_id;
};

type CheckupRoutes = 'node-checkup' | 'node-ping' | 'node-ping-get' | 'agent-checkup' | 'agent-ping' | 'agent-ping-get';

export const checkupHandlers: Pick<Handlers, CheckupRoutes> = {
  async 'node-checkup'({ params, person }, services) {
    await mustFindNode(params.id, person().visibility, services);
    return readCheckup(params.id, services);
  },
  async 'node-ping'({ params, body, person, correlation_id }, services) {
    const node = await mustFindNode(params.id, person().visibility, services);
    const node_instance_id = requireInstanceId(node) as NodeInstanceId;
    const row = await joinedRow(services.db, params.id, person().visibility);
    if (row && (await isAgentless(row, services))) throw new ApiProblem('no_agent');
    const target = { node_id: node.node_id as NodeId, node_instance_id, correlation_id };
    const task_id = await queuePing(services, target, body?.within_seconds);
    return pingWire(await readPing(services, task_id, node_instance_id));
  },
  async 'node-ping-get'(call, services) {
    const { params, query } = call;
    const node = await mustFindNode(params.id, call.person().visibility, services);
    return followPing(call, services, params.task_id, requireInstanceId(node), query?.wait ?? 0);
  },
  'agent-checkup': ({ agent }, services) => readCheckup(agent().node_id, services),
  async 'agent-ping'({ agent, body, correlation_id }, services) {
    const { node_id, node_instance_id } = agent();
    const task_id = await queuePing(services, { node_id, node_instance_id, correlation_id }, body?.within_seconds);
    return pingWire(await readPing(services, task_id, node_instance_id));
  },
  'agent-ping-get': (call, services) =>
    followPing(call, services, call.params.task_id, call.agent().node_instance_id, call.query?.wait ?? 0),
};
