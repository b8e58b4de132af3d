/** What Azure offers beyond the SDK, and not everywhere: how far the newest operation is, and what happened to a cluster. */
import type { ContainerServiceContext } from '@azure/arm-containerservice/api';
import { clusterId, type Place } from '../place.ts';

export interface LatestOperation {
  status: string;
  percent: number | null;
  started_at: string | null;
}

/** Only preview versions know it. */
const latest_version = '2025-05-02-preview';
const events_version = '2015-04-01';
const most_events = 30;

interface WireOperation {
  status?: string;
  percentComplete?: number;
  startTime?: string;
}

interface WireEvent {
  eventTimestamp?: string;
  operationName?: { localizedValue?: string; value?: string };
  status?: { value?: string };
  properties?: { statusMessage?: string };
}

/** Null where it is not offered, or nothing is known: it is an extra, and its absence says nothing. */
export async function latestOperation(context: ContainerServiceContext, place: Place): Promise<LatestOperation | null> {
  const path = `${clusterId(place)}/operations/latest`;
  const { status, body } = await context
    .pathUnchecked(path)
    .get({ queryParameters: { 'api-version': latest_version } });
  if (status !== '200') return null;
  const { status: word = 'Unknown', percentComplete, startTime } = body as WireOperation;
  return {
    status: word,
    percent: typeof percentComplete === 'number' ? percentComplete : null,
    started_at: startTime ?? null,
  };
}

const lineOf = ({ eventTimestamp = '', operationName, status, properties }: WireEvent): string =>
  [eventTimestamp, operationName?.localizedValue ?? operationName?.value, status?.value, properties?.statusMessage]
    .filter(Boolean)
    .join(' · ');

/** The activity log of a cluster, newest first; empty where this account may not read it. */
export async function recentEvents(context: ContainerServiceContext, place: Place, since: Date): Promise<string[]> {
  const { status, body } = await context
    .pathUnchecked(`/subscriptions/${place.subscription_id}/providers/Microsoft.Insights/eventtypes/management/values`)
    .get({
      queryParameters: {
        'api-version': events_version,
        $filter: `eventTimestamp ge '${since.toISOString()}' and resourceUri eq '${clusterId(place)}'`,
      },
    });
  if (status !== '200') return [];
  const { value = [] } = body as { value?: WireEvent[] };
  return value.slice(0, most_events).map(lineOf);
}
