/** The limit on writing, at the edge of the routes: reserves before the body is read, and charges what the request stores. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RouteDeclaration } from '../../../contract/route.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { declaredBytes, receivedBytes } from '../../http/bodies/declared-size.ts';
import type { ApiServices } from '../../services.ts';
import { holdUntilServed } from '../held/until-served.ts';
import type { Amount } from './outside-writes.ts';
import { instanceWriter, tenantWriter, type Writer } from './writers.ts';

/** Limited in other ways: reports by `deferred-reports.ts`, log lines by the room they have per node. */
const limitedElsewhere: ReadonlySet<OperationName> = new Set([
  'agent-heartbeat',
  'agent-logs',
  'agent-stream',
] as const);
/**
 * Charged, but never refused. Results answer tasks of ours, so there are no more of them than tasks, and a release waits for
 * them. Rotations have a request rate of their own.
 */
const neverRefused: ReadonlySet<OperationName> = new Set([
  'agent-task-progress',
  'agent-task-result',
  'agent-credential-rotate',
] as const);

/** What the operations that a request starts write until they are over, about. */
const laterCost: Partial<Record<OperationName, { rows: number; bytes: number }>> = {
  'allocation-create': { rows: 20, bytes: 16 * 1024 },
  // That the new credential is in use is recorded when it is first shown.
  'agent-credential-rotate': { rows: 1, bytes: 256 },
  'allocation-release': { rows: 40, bytes: 32 * 1024 },
};
/** Kept for a day, with the sealed answer. */
const idempotencyBytes = 2 * 1024;
/** For the estimate before a body is read; its rows are charged exactly afterwards. */
const bodyBytesPerRow = 256;

const writers = new WeakMap<FastifyRequest, Writer>();

function writerOf({ agent_session, person }: FastifyRequest, name: OperationName): Writer | null {
  if (agent_session) return limitedElsewhere.has(name) ? null : instanceWriter(agent_session);
  return person && tenantWriter(person);
}

/** What a request stores besides its evidence, and what the operation that it starts will write. */
function costOf(request: FastifyRequest, name: OperationName, bodyBytes: number): Amount {
  const { rows = 0, bytes = 0 } = laterCost[name] ?? {};
  const kept = request.headers['idempotency-key'] === undefined ? 0 : idempotencyBytes;
  return { rows, bytes: bytes + bodyBytes + kept };
}

const mayWrite = ({ method, reads_only }: RouteDeclaration) => method !== 'GET' && !reads_only;

export interface ServedRoute {
  name: OperationName;
  route: RouteDeclaration;
  maxBodyBytes: number;
}

export function admitWrite(
  request: FastifyRequest,
  reply: FastifyReply,
  { name, route, maxBodyBytes }: ServedRoute,
  { outside }: ApiServices,
): void {
  const writer = mayWrite(route) ? writerOf(request, name) : null;
  if (!writer) return;
  writers.set(request, writer);
  if (neverRefused.has(name)) return;
  const bodyBytes = declaredBytes(request, maxBodyBytes);
  const { rows, bytes } = costOf(request, name, bodyBytes);
  const expected = { rows: rows + 1 + Math.floor(bodyBytes / bodyBytesPerRow), bytes };
  holdUntilServed(request, reply, outside.reserve(writer, expected));
}

/** Services whose evidence is charged to the caller, for callers that are limited. */
export function chargedServices(request: FastifyRequest, services: ApiServices): ApiServices {
  const writer = writers.get(request);
  if (!writer) return services;
  return { ...services, db: services.outside.database(services.db, writer) };
}

/** Once a request is served: what it stored besides evidence, and what it started will write. A refused one stored nothing. */
export function chargeLater(request: FastifyRequest, name: OperationName, { outside }: ApiServices): void {
  const writer = writers.get(request);
  if (!writer) return;
  const { rows, bytes } = costOf(request, name, receivedBytes(request));
  outside.charge(writer, rows, bytes);
}
