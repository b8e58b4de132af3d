/**
 * Applies the write limit to routes. Reserves an estimate before the body is read, and charges what
 * the request stores.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RouteDeclaration } from '../../../contract/route.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { declaredBytes, receivedBytes } from '../../http/bodies/declared-size.ts';
import type { ApiServices } from '../../services.ts';
import { holdUntilServed } from '../held/until-served.ts';
import type { Amount } from './write-limits.ts';
import { instanceWriter, tenantWriter, type Writer } from './writers.ts';

/** Limited elsewhere: status reports by `deferred-reports.ts`, log lines by their size per node. */
const limitedElsewhere: ReadonlySet<OperationName> = new Set([
  'agent-heartbeat',
  'agent-logs',
  'agent-stream',
] as const);
/**
 * Charged, but never refused. An agent sends progress and results only for tasks that the server
 * gave it. Each progress report overwrites the one before. A task takes only one result, and the
 * release of an allocation may be waiting for it. Rotations have a request rate of their own.
 */
const neverRefused: ReadonlySet<OperationName> = new Set([
  'agent-task-progress',
  'agent-task-result',
  'agent-credential-rotate',
] as const);

/**
 * The estimated size of the writes that follow a request. The operation that the request starts
 * makes most of them.
 */
const laterCost: Partial<Record<OperationName, { rows: number; bytes: number }>> = {
  'allocation-create': { rows: 20, bytes: 16 * 1024 },
  // The first use of the new credential is recorded.
  'agent-credential-rotate': { rows: 1, bytes: 256 },
  'allocation-release': { rows: 40, bytes: 32 * 1024 },
};
/** An idempotency key is stored for a day, with the encrypted answer. */
const idempotencyBytes = 2 * 1024;
/**
 * The estimate expects one evidence row for this many bytes of the body. The actual number of rows
 * is charged when they are written.
 */
const bodyBytesPerRow = 256;

const writers = new WeakMap<FastifyRequest, Writer>();

function writerOf({ agent_session, person }: FastifyRequest, name: OperationName): Writer | null {
  if (agent_session) return limitedElsewhere.has(name) ? null : instanceWriter(agent_session);
  return person && tenantWriter(person);
}

/**
 * Returns the bytes that a request stores besides its evidence, plus the rows and bytes that will
 * be written later because of it.
 */
function costOf(request: FastifyRequest, name: OperationName, bodyBytes: number): Amount {
  const { rows = 0, bytes = 0 } = laterCost[name] ?? {};
  const keyBytes = request.headers['idempotency-key'] === undefined ? 0 : idempotencyBytes;
  return { rows, bytes: bytes + bodyBytes + keyBytes };
}

const isWrite = ({ method, reads_only }: RouteDeclaration) => method !== 'GET' && !reads_only;

export interface ServedRoute {
  name: OperationName;
  route: RouteDeclaration;
  maxBodyBytes: number;
}

export function admitWrite(
  request: FastifyRequest,
  reply: FastifyReply,
  { name, route, maxBodyBytes }: ServedRoute,
  { writeLimits }: ApiServices,
): void {
  const writer = isWrite(route) ? writerOf(request, name) : null;
  if (!writer) return;
  writers.set(request, writer);
  if (neverRefused.has(name)) return;
  const bodyBytes = declaredBytes(request, maxBodyBytes);
  const { rows, bytes } = costOf(request, name, bodyBytes);
  const expected = { rows: rows + 1 + Math.floor(bodyBytes / bodyBytesPerRow), bytes };
  holdUntilServed(request, reply, writeLimits.reserve(writer, expected));
}

/**
 * Returns services whose database charges the caller for the evidence that the request writes.
 * Returns `services` unchanged if the write limit does not apply to the caller.
 */
export function withWriteCharges(request: FastifyRequest, services: ApiServices): ApiServices {
  const writer = writers.get(request);
  if (!writer) return services;
  return { ...services, db: services.writeLimits.database(services.db, writer) };
}

/**
 * Charges what `costOf` returns. Call this only after the request was served, because a refused
 * request stores nothing.
 */
export function chargeServedRequest(request: FastifyRequest, name: OperationName, { writeLimits }: ApiServices): void {
  const writer = writers.get(request);
  if (!writer) return;
  const { rows, bytes } = costOf(request, name, receivedBytes(request));
  writeLimits.charge(writer, rows, bytes);
}
