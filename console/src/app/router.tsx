/**
 * Every URL of the console. Each page is a chunk of its own, and the URL holds its state.
 */
import type { QueryClient } from '@tanstack/react-query';
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  Outlet,
  parseSearchWith,
  redirect,
  stringifySearchWith,
} from '@tanstack/react-router';
import { isSignedOut } from '../api/failure.ts';
import { sessionQuery } from '../api/session.ts';
import { FailedPage } from '../ui/loading/FailedPage.tsx';
import { LoadingPage } from '../ui/loading/LoadingPage.tsx';
import { createLazyPage } from '../ui/loading/lazy-part.tsx';
import { fields } from '../ui/search-params.ts';

const rootRoute = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/sign-in',
  validateSearch: fields('next'),
  component: createLazyPage(() => import('../features/sign-in/SignInPage.tsx'), 'SignInPage'),
});

/** The parent of every page that needs a session. */
const frameRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'frame',
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(sessionQuery);
    } catch (error) {
      if (isSignedOut(error)) throw redirect({ to: '/sign-in', search: { next: location.href } });
      throw error;
    }
  },
  component: createLazyPage(() => import('./Frame.tsx'), 'Frame'),
});

const homeRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/attention', replace: true });
  },
});

const attentionRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/attention',
  component: createLazyPage(() => import('../features/attention/AttentionPage.tsx'), 'AttentionPage'),
});

const fleetRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/fleet',
  validateSearch: fields('q', 'pool', 'status', 'group', 'view', 'sort'),
  component: createLazyPage(() => import('../features/fleet/FleetPage.tsx'), 'FleetPage'),
});

const nodeRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/nodes/$id',
  validateSearch: fields('tab', 'layer', 'instance', 'q'),
  component: createLazyPage(() => import('../features/node/NodePage.tsx'), 'NodePage'),
});

const allocationsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/allocations',
  validateSearch: fields('q', 'pool', 'status', 'sort', 'dialog'),
  component: createLazyPage(() => import('../features/allocation/AllocationsPage.tsx'), 'AllocationsPage'),
});

const allocationRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/allocations/$id',
  validateSearch: fields('layer'),
  component: createLazyPage(() => import('../features/allocation/AllocationPage.tsx'), 'AllocationPage'),
});

const operationsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/operations',
  validateSearch: fields('q', 'kind', 'status', 'sort'),
  component: createLazyPage(() => import('../features/operations/OperationsPage.tsx'), 'OperationsPage'),
});

const operationRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/operations/$id',
  validateSearch: fields('layer'),
  component: createLazyPage(() => import('../features/operations/OperationPage.tsx'), 'OperationPage'),
});

const poolsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/pools',
  component: createLazyPage(() => import('../features/pools/PoolsPage.tsx'), 'PoolsPage'),
});

const supervisionRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/supervision',
  validateSearch: fields('sort'),
  component: createLazyPage(() => import('../features/supervision/SupervisionPage.tsx'), 'SupervisionPage'),
});

const restorationRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/restoration',
  component: createLazyPage(() => import('../features/restoration/RestorationPage.tsx'), 'RestorationPage'),
});

const residueRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/residue',
  validateSearch: fields('status', 'pool', 'sort'),
  component: createLazyPage(() => import('../features/residue/ResiduePage.tsx'), 'ResiduePage'),
});

const driftRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/drift',
  validateSearch: fields('status'),
  component: createLazyPage(() => import('../features/drift/DriftPage.tsx'), 'DriftPage'),
});

const bootsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/boots',
  validateSearch: fields('pool', 'phase', 'budget', 'sort'),
  component: createLazyPage(() => import('../features/boots/BootsPage.tsx'), 'BootsPage'),
});

const auditRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/audit',
  validateSearch: fields('actor', 'action', 'target_id', 'code', 'kind'),
  component: createLazyPage(() => import('../features/audit/AuditPage.tsx'), 'AuditPage'),
});

const settingsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/settings',
  validateSearch: fields('sort', 'dialog'),
  component: createLazyPage(() => import('../features/settings/SettingsPage.tsx'), 'SettingsPage'),
});

const findRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '/find',
  validateSearch: fields('id'),
  component: createLazyPage(() => import('../features/find/FindPage.tsx'), 'FindPage'),
});

const notFoundRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: '$',
  component: createLazyPage(() => import('./NotFoundPage.tsx'), 'NotFoundPage'),
});

const routeTree = rootRoute.addChildren([
  signInRoute,
  frameRoute.addChildren([
    homeRoute,
    attentionRoute,
    fleetRoute,
    nodeRoute,
    allocationsRoute,
    allocationRoute,
    operationsRoute,
    operationRoute,
    poolsRoute,
    supervisionRoute,
    restorationRoute,
    residueRoute,
    driftRoute,
    bootsRoute,
    auditRoute,
    settingsRoute,
    findRoute,
    notFoundRoute,
  ]),
]);

export const createConsoleRouter = (queryClient: QueryClient) =>
  createRouter({
    routeTree,
    context: { queryClient },
    defaultPreload: 'intent',
    defaultPendingComponent: LoadingPage,
    defaultErrorComponent: FailedPage,
    scrollRestoration: true,
    // Plain values in the URL: `?status=failed`, never quoted JSON.
    parseSearch: parseSearchWith((value) => value),
    stringifySearch: stringifySearchWith(String),
  });

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createConsoleRouter>;
  }
}
