/**
 * Optional details beyond the SDK: progress of the latest operation, and the activity log of a
 * cluster.
 */
import type { ContainerServiceContext } from '@azure/arm-containerservice/api';
import { clusterId, type Place } from '../place.ts';

export interface LatestOperation {
  status: string;
  percent: number | null;
  started_at: string | null;
}

/** Available only in preview versions of the API. */
const latest_version = '2025-05-02-preview';
const events_version = '2015-04-01';
const max_events = 30;

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

/** Null if it is not offered or unknown; its absence means nothing. */
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

/** The activity log of a cluster, newest first; empty if this account may not read it. */
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
  return value.slice(0, max_events).map(lineOf);
}
