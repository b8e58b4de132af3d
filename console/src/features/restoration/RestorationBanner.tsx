/** Above every page while the servers only observe after a restore. Hidden from tenants. */

import { Link, useLocation } from '@tanstack/react-router';
import { useRestoration } from '../../api/queries/restoration.ts';
import { IconDatabaseExclamation } from '../../ui/icons.generated.ts';
import { Banner } from '../../ui/layout/Banner.tsx';
import { Ago } from '../../ui/time/Ago.tsx';

export function RestorationBanner() {
  const state = useRestoration();
  const { pathname } = useLocation();
  if (!state?.observing || !state.newest) return null;
  return (
    <Banner icon={IconDatabaseExclamation} tone="bad">
      <b>
        The database was restored {/* Screen readers would announce every change of the age. */}
        <span aria-live="off">
          <Ago at={state.newest.began_at} />
        </span>
        , so the servers only observe.
      </b>{' '}
      Nothing is launched, released or judged.{' '}
      {pathname !== '/restoration' && <Link to="/restoration">See what differs</Link>}
    </Banner>
  );
}

/** A link to the newest restore after its end. Before that, the banner has the link. */
export function RestorationLink() {
  const state = useRestoration();
  return (
    state?.newest?.ended_at && (
      <Link to="/restoration">
        Database restored <Ago at={state.newest.began_at} />
      </Link>
    )
  );
}
