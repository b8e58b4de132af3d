/** Determines the size of a request body, before and after the body is read. */
import type { FastifyRequest } from 'fastify';

/** A chunked body declares no size, so it counts as the largest that the route allows. */
export function declaredBytes({ headers }: Pick<FastifyRequest, 'headers'>, maxBytes: number): number {
  const length = Number(headers['content-length']);
  if (headers['content-length'] !== undefined && Number.isInteger(length)) return Math.min(length, maxBytes);
  return headers['transfer-encoding'] === undefined ? 0 : maxBytes;
}

/**
 * Call this after the body was read. The text of a chunked body is not kept, so the parsed body is
 * serialized again to measure it.
 */
export function receivedBytes({ headers, body }: Pick<FastifyRequest, 'headers' | 'body'>): number {
  if (headers['transfer-encoding'] === undefined) return Number(headers['content-length']) || 0;
  return Buffer.byteLength(typeof body === 'string' ? body : JSON.stringify(body ?? null));
}
