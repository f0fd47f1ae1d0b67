import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { App, NotFound, PageError } from './layout/App';
import { readClusterSearch } from './pages/cluster/search';
import { readClustersSearch } from './pages/clusters/search';
import { readCreateSearch } from './pages/create/search';

const root = createRootRoute({ component: App, notFoundComponent: NotFound });

const index = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/clusters', replace: true });
  },
});

const clusters = createRoute({
  getParentRoute: () => root,
  path: '/clusters',
  validateSearch: readClustersSearch,
  component: lazyRouteComponent(() => import('./pages/clusters/ClustersPage'), 'ClustersPage'),
});

const cluster = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$namespace/$name',
  validateSearch: readClusterSearch,
  component: lazyRouteComponent(() => import('./pages/cluster/ClusterPage'), 'ClusterPage'),
});

const create = createRoute({
  getParentRoute: () => root,
  path: '/create',
  validateSearch: readCreateSearch,
  component: lazyRouteComponent(() => import('./pages/create/CreatePage'), 'CreatePage'),
});

const administration = createRoute({
  getParentRoute: () => root,
  path: '/administration',
  component: lazyRouteComponent(() => import('./pages/administration/AdministrationPage'), 'AdministrationPage'),
});

export const router = createRouter({
  routeTree: root.addChildren([index, clusters, cluster, create, administration]),
  basepath: '/ui',
  defaultPreload: 'intent',
  defaultErrorComponent: PageError,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
