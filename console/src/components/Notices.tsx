/** Where notices appear, once there was one. */
import { lazy, Suspense, useSyncExternalStore } from 'react';
import { areNoticesWanted, loadNotices, watchNotices } from '../notices.ts';

const Shown = lazy(async () => ({ default: (await loadNotices()).Notifications }));

export function Notices() {
  const wanted = useSyncExternalStore(watchNotices, areNoticesWanted);
  return wanted ? (
    <Suspense>
      <Shown position="bottom-right" />
    </Suspense>
  ) : null;
}
