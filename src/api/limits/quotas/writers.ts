/** Describes the callers that cause evidence, and the allowances that limit each of them. */
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { RegisterRequest } from '../../../contract/agent/agent.ts';
import type { Actor } from '../../../contract/evidence/evidence.ts';
import type { QuotaKind } from '../../../lifecycle/limits/limits.ts';
import type { OperationServices } from '../../../operations/runtime/services.ts';
import type { InstanceRow } from '../../../store/agents/instances.ts';
import { actorOf, type Person } from '../../http/callers.ts';
import { sourceAddress, sourceNetwork } from '../../http/source-address.ts';

export interface Writer {
  /** The writer named in reports about dropped facts. */
  kind: 'instance' | 'join_token' | 'tenant' | 'relay' | 'address';
  id: string;
  /** The allowances that the writer draws on, besides the one that all writers share. */
  allowances: readonly { kind: QuotaKind; key: string }[];
  node_id?: NodeId;
  node_instance_id?: NodeInstanceId;
  actor?: Actor;
}

export const instanceWriter = (instance: { node_id: NodeId; node_instance_id: NodeInstanceId }): Writer => {
  const { node_id, node_instance_id } = instance;
  const allowances = [{ kind: 'instance', key: node_instance_id }] as const;
  return { kind: 'instance', id: node_instance_id, allowances, node_id, node_instance_id };
};

/**
 * Limits joins by token and by name, so that one machine that joins in a loop does not block the
 * other machines of its pool.
 */
export function joinWriter(join_token: string, name: string): Writer {
  const id = createHash('sha256').update(join_token).digest('base64url').slice(0, 16);
  const allowances = [
    { kind: 'instance', key: `${id} ${name}` },
    { kind: 'join_token', key: id },
  ] as const;
  return { kind: 'join_token', id, allowances };
}

/** Returns null for fleet-wide tokens, which are not limited. */
export const tenantWriter = (person: Person): Writer | null =>
  person.visibility.kind === 'fleet'
    ? null
    : {
        kind: 'tenant',
        id: person.visibility.tenant,
        allowances: [{ kind: 'tenant', key: person.visibility.tenant }],
        actor: actorOf(person),
      };

export const relayWriter = (actor: Actor): Writer => ({
  kind: 'relay',
  id: actor.id,
  allowances: [{ kind: 'relay', key: actor.id }],
  actor,
});

export function addressWriter(request: FastifyRequest): Writer {
  const network = sourceNetwork(request);
  const address = sourceAddress(request);
  const allowances = [
    { kind: 'address', key: network },
    { kind: 'anonymous', key: '' },
  ] as const;
  return { kind: 'address', id: network, allowances, actor: { kind: 'address', id: address, name: address } };
}

/** An estimate of what a registration writes, reserved until the exact amount is charged. */
export const registrationCost = { rows: 5, bytes: 4 * 1024 };

/**
 * Returns the writer to charge for a registration: the instance if it is known without a query,
 * else the join token, else the address.
 */
export function registrationWriter(
  request: FastifyRequest,
  { enrollment_token, join_token, name }: RegisterRequest,
  known: Pick<InstanceRow, 'node_id' | 'node_instance_id'> | undefined,
  { installation }: Pick<OperationServices, 'installation'>,
): Writer {
  if (known) return instanceWriter(known);
  const instance = enrollment_token ? installation.readEnrollmentToken(enrollment_token) : undefined;
  if (instance) return instanceWriter(instance);
  return join_token ? joinWriter(join_token, name ?? '') : addressWriter(request);
}

/** For writes that are limited for fleet-wide tokens too; each of them has its own limit. */
export function personWriter(person: Person): Writer {
  const key = person.visibility.kind === 'fleet' ? `token ${person.token_id}` : person.visibility.tenant;
  return { kind: 'tenant', id: key, allowances: [{ kind: 'tenant', key }], actor: actorOf(person) };
}

/** Returns the writer to charge for the record of a refused request. */
export function refusalWriter(request: FastifyRequest): Writer {
  const { person, agent_session, relay } = request;
  if (agent_session) return instanceWriter(agent_session);
  if (relay) return relayWriter(actorOf(relay));
  return person ? personWriter(person) : addressWriter(request);
}
