/** Opens the log forwarders that the settings name. */
import type { ServerSettings } from '../settings/settings.ts';
import { createLogForwarder, type ForwarderParts, type LogForwarder } from './log-forwarder.ts';
import { lokiReceiver, otlpReceiver } from './log-receivers.ts';

type Named = Pick<ServerSettings, 'loki_endpoint' | 'otlp_logs_endpoint'>;

export function openLogForwarders(named: Named, parts: Omit<ForwarderParts, 'receiver'>): LogForwarder[] {
  const { loki_endpoint: loki, otlp_logs_endpoint: otlp } = named;
  const receivers = [...(loki ? [lokiReceiver(loki)] : []), ...(otlp ? [otlpReceiver(otlp)] : [])];
  return receivers.map((receiver) => createLogForwarder({ ...parts, receiver }));
}
