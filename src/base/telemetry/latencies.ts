/**
 * Counts how long calls and operations take, for Prometheus. The buckets are few, because each is a
 * series for every route.
 */
import { Histogram } from 'prom-client';

export interface Latencies {
  observeCall(route: string, seconds: number): void;
  observeOperation(kind: string, seconds: number): void;
  readonly metrics: readonly Histogram[];
}

const callBuckets = [0.01, 0.1, 1, 10];
const operationBuckets = [1, 10, 60, 600, 3600];

export function createLatencies(): Latencies {
  const histogram = (name: string, help: string, label: string, buckets: number[]) =>
    new Histogram({ name, help, labelNames: [label], buckets, registers: [] });
  const calls = histogram('slipway_http_request_seconds', 'Duration of calls, by route', 'route', callBuckets);
  const operations = histogram(
    'slipway_operation_seconds',
    'Time from the request of an operation to its end, by kind',
    'kind',
    operationBuckets,
  );
  return {
    observeCall: (route, seconds) => calls.observe({ route }, seconds),
    observeOperation: (kind, seconds) => operations.observe({ kind }, Math.max(0, seconds)),
    metrics: [calls, operations],
  };
}
