/**
 * Keeps a view of the fleet in step with the stream. Cells redraw with the next frame, counts a few
 * times a second.
 */
import { useEffect, useMemo, useReducer } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';
import type { FleetStore } from '../../api/cache/fleet-store.ts';
import { requestFrame } from './animation-frame.ts';
import type { FleetFilter, GroupBy } from './filter.ts';
import { FleetView } from './fleet-view.ts';

/** Numbers that change faster are unreadable, and each change costs a render. */
const recountMs = 250;

export function useFleetView(
  store: FleetStore | undefined,
  retired: readonly FleetNode[],
  filter: FleetFilter,
  groupBy: GroupBy,
): FleetView {
  const [, recount] = useReducer((times: number) => times + 1, 0);
  const view = useMemo(() => {
    function* all() {
      yield* retired;
      if (store) yield* store.values();
    }
    return new FleetView(all(), filter, groupBy);
  }, [store, retired, filter, groupBy]);

  useEffect(() => {
    if (!store) return;
    let cancel: (() => void) | undefined;
    const unwatch = store.watch((changed) => {
      view.apply(changed);
      requestFrame();
      cancel ??= systemClock.after(recountMs, () => {
        cancel = undefined;
        recount();
      });
    });
    return () => {
      unwatch();
      cancel?.();
    };
  }, [store, view]);
  return view;
}
