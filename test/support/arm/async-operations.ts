/**
 * The long-running operations of the fake ARM. The server signs the polling URLs that it issues,
 * and answers polls only at these URLs.
 */
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { moment } from '../../../src/base/clock.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import type { ArmRequest, Route } from './route.ts';
import type { FakeSubscription, Operation } from './subscription.ts';

const key = randomBytes(32);
const iso = (ms: number) => moment(ms).toISOString();

/** Adds the query parameters by which the server recognizes a polling URL that it issued. */
function signUrl(url: string, now_ms: number): string {
  const query = new URLSearchParams({
    'api-version': '2017-08-31',
    t: String(638_000_000_000_000_000 + Math.round(now_ms)),
    c: randomBytes(24).toString('base64url'),
    s: randomBytes(24).toString('base64url'),
  });
  query.set('h', signature(new URL(url).pathname, query));
  return `${url}?${query}`;
}

const signature = (path: string, query: URLSearchParams) =>
  createHmac('sha256', key)
    .update([path.toLowerCase(), query.get('t'), query.get('c'), query.get('s')].join('\n'))
    .digest('base64url');

function refuseUnsigned({ path, query }: ArmRequest): void {
  if (query.get('h') === signature(path, query)) return;
  throw new Refusal(
    400,
    'InvalidAsyncOperationUri',
    'The address of the operation was altered: its signed query parameters are missing or wrong.',
  );
}

export const newOperation = (
  subscription: FakeSubscription,
  location: string,
  behaviour: Pick<Operation, 'seconds' | 'finish'> & Partial<Pick<Operation, 'advance'>>,
): Operation =>
  subscription.begin({
    id: randomUUID(),
    location,
    status: 'InProgress',
    began_ms: subscription.clock.nowMs(),
    ...behaviour,
  });

const pollingUrlOf = (subscription: FakeSubscription, baseUrl: string, kind: string, { location, id }: Operation) =>
  signUrl(
    `${baseUrl}/subscriptions/${subscription.subscription_id}/providers/Microsoft.ContainerService/locations/${location}/${kind}/${id}`,
    subscription.clock.nowMs(),
  );

export const asyncOperationHeader = (subscription: FakeSubscription, url: string, operation: Operation) => ({
  'azure-asyncoperation': pollingUrlOf(subscription, url, 'operations', operation),
  'retry-after': String(subscription.pace.retry_after),
});

export const locationHeader = (subscription: FakeSubscription, url: string, operation: Operation) => ({
  location: pollingUrlOf(subscription, url, 'operationresults', operation),
});

/**
 * ARM itself deletes resource groups, so their polling URL has no `Microsoft.ContainerService`
 * part.
 */
export const groupLocationHeader = (subscription: FakeSubscription, url: string, operation: Operation) => ({
  location: signUrl(
    `${url}/subscriptions/${subscription.subscription_id}/operationresults/${operation.id}`,
    subscription.clock.nowMs(),
  ),
  'retry-after': String(subscription.pace.retry_after),
});

export function statusOf(operation: Operation): Record<string, unknown> {
  return {
    name: operation.id,
    status: operation.status,
    startTime: iso(operation.began_ms),
    ...(operation.ended_ms && { endTime: iso(operation.ended_ms) }),
    ...(operation.error && { error: operation.error }),
  };
}

/** Derives the percentage from the elapsed time. It stays below 100 until the operation is done. */
export function percentOf(subscription: FakeSubscription, operation: Operation): number {
  if (operation.status !== 'InProgress') return 100;
  const share = subscription.elapsed(operation.began_ms) / operation.seconds();
  return Math.min(99, Math.floor(share * 100));
}

function findOperation(subscription: FakeSubscription, id: string | undefined): Operation {
  const operation = subscription.operations.get(id ?? '');
  if (!operation) throw new Refusal(404, 'NotFound', `The operation ${id} was not found.`);
  return operation;
}

export function asyncOperationRoutes(subscription: FakeSubscription): Route[] {
  const status = (request: ArmRequest, id: string | undefined): ArmAnswer => {
    refuseUnsigned(request);
    const operation = findOperation(subscription, id);
    const headers = { 'retry-after': String(subscription.pace.retry_after) };
    return { status: 200, headers: operation.status === 'InProgress' ? headers : {}, body: statusOf(operation) };
  };
  const result = (request: ArmRequest, id: string | undefined, doneStatus: number): ArmAnswer => {
    refuseUnsigned(request);
    const operation = findOperation(subscription, id);
    if (operation.error) throw new Refusal(409, operation.error.code, operation.error.message);
    if (operation.status !== 'InProgress') return { status: doneStatus };
    return { status: 202, headers: { location: request.url, 'retry-after': String(subscription.pace.retry_after) } };
  };
  const aksPath = '/subscriptions/:sub/providers/Microsoft.ContainerService/locations/:location';
  return [
    { method: 'GET', path: `${aksPath}/operations/:id`, answer: (request, { id }) => status(request, id) },
    { method: 'GET', path: `${aksPath}/operationresults/:id`, answer: (request, { id }) => result(request, id, 204) },
    {
      method: 'GET',
      path: '/subscriptions/:sub/operationresults/:id',
      answer: (request, { id }) => result(request, id, 200),
    },
  ];
}
