/** Opens the tracer if a collector is configured. Its code is loaded only then. */
import type { OtlpParts } from './otlp-tracer.ts';
import type { Tracer } from './trace.ts';

export async function openTracer({
  endpoint,
  ...parts
}: Omit<OtlpParts, 'endpoint'> & { endpoint: string | null }): Promise<Tracer | null> {
  if (endpoint === null) return null;
  const { otlpTracer } = await import('./otlp-tracer.ts');
  return otlpTracer({ endpoint, ...parts });
}
