// A server that speaks the interface of Drover's UI with made-up data. It changes a cluster every two seconds.
//
//   node mock/server.mjs [--port=5174] [--clusters=1000] [--local]     --local signs in with the token "local"
//   node mock/server.mjs --tenant                                     the user may not list namespaces
//
// It also serves the built files with the content security policy of the real server.
import { createServer } from 'node:http';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import * as answers from './answers.mjs';
import * as changes from './changes.mjs';
import * as create from './create.mjs';
import { makeFleet } from './data.mjs';
import * as operate from './operate.mjs';

const { values: flags } = parseArgs({
  options: {
    port: { type: 'string', default: '5174' },
    clusters: { type: 'string', default: '1000' },
    local: { type: 'boolean' },
    tenant: { type: 'boolean' },
    still: { type: 'boolean' },
  },
});
const fleet = makeFleet(Number(flags.clusters));
const dist = join(import.meta.dirname, '../../dist');
const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
};
const session = {
  user: 'ada@example.com',
  groups: ['platform'],
  csrf: 'csrf-1',
  version: 'v1.2.3',
  mode: flags.local ? 'local' : 'server',
  expires: null,
};
const streams = new Set();
let cursor = 0;

const problem = (status, reason, error) => ({ status, body: { error, reason } });
const find = (rows, namespace, name) => rows.find((row) => row.namespace === namespace && row.name === name);

function policy(nonce) {
  return (
    `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; ` +
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  );
}

function serveFile(request, response, path) {
  let file = join(dist, normalize(path));
  if (!existsSync(file) || statSync(file).isDirectory()) file = join(dist, 'index.html');
  const nonce = Math.random().toString(36).slice(2);
  let body = readFileSync(file);
  const headers = {
    'Content-Type': types[extname(file)] ?? 'application/octet-stream',
    'X-Content-Type-Options': 'nosniff',
  };
  if (file.endsWith('index.html')) {
    body = Buffer.from(body.toString().replaceAll('__NONCE__', nonce));
    headers['Content-Security-Policy'] = policy(nonce);
  }
  if (/gzip/.test(request.headers['accept-encoding'] ?? '')) {
    body = gzipSync(body);
    headers['Content-Encoding'] = 'gzip';
  }
  response.writeHead(200, headers).end(body);
}

function send(stream, event, data) {
  stream.response.write(`event: ${event}\nid: ${++cursor}\ndata: ${JSON.stringify(data)}\n\n`);
}

const seen = (stream, row) => stream.namespaces === '*' || stream.namespaces.split(',').includes(row.namespace);

function openStream(request, response, query) {
  const stream = { response, namespaces: query.get('namespaces') ?? '*' };
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  for (const kind of ['clusters', 'machines']) {
    send(stream, 'rows', { kind, reset: true, put: fleet[kind].filter((row) => seen(stream, row)), gone: [] });
    send(stream, 'synced', { kind });
  }
  if (flags.tenant) {
    send(stream, 'problem', {
      kind: 'machines',
      namespace: 'shop',
      error: 'User "ada" cannot list machines in the namespace "shop"',
      reason: 'Forbidden',
    });
  }
  streams.add(stream);
  request.on('close', () => streams.delete(stream));
}

// change lets one waiting cluster become ready, or a ready one wait.
function change() {
  const row = fleet.clusters[2 + Math.floor(Math.random() * (fleet.clusters.length - 2))];
  if (!row || (row.state !== 'Ready' && row.state !== 'Waiting')) return;
  Object.assign(
    row,
    row.state === 'Ready'
      ? {
          state: 'Waiting',
          reason: 'ConfiguringNodes',
          message: 'configuring worker nodes: waiting for agent to apply the plan',
          since: new Date().toISOString(),
        }
      : { state: 'Ready', reason: undefined, message: undefined, since: new Date().toISOString() },
  );
  for (const stream of streams)
    if (seen(stream, row)) send(stream, 'rows', { kind: 'clusters', put: [row], gone: [] });
}

function add(row) {
  fleet.clusters.push(row);
  for (const stream of streams)
    if (seen(stream, row)) send(stream, 'rows', { kind: 'clusters', put: [row], gone: [] });
}

function clusterAnswer([namespace, , name, what, ...rest], query, text) {
  const row = find(fleet.clusters, namespace, name);
  if (!row) return problem(404, 'NotFound', `Cluster ${namespace}/${name} does not exist`);
  const machines = fleet.machines.filter((m) => m.namespace === namespace && m.cluster === name);
  switch (what) {
    case 'diagnose':
      return { status: 200, body: answers.diagnose(row, machines) };
    case 'explain':
      return { status: 200, body: answers.explain(row, machines) };
    case 'events':
      return { status: 200, body: answers.events(row, machines) };
    case 'logs':
      return { status: 200, text: answers.log(row) };
    case undefined:
      return changes.written(row);
    case 'preview':
      return changes.previewOf(row, machines, text);
    case 'manifest':
      return { status: 200, text: answers.manifest(row), headers: changes.manifestHeaders };
    case 'snapshots':
      return operate.snapshotAnswer(row, rest[0], query.get('config'));
    case 'operations':
      return operate.operations();
    case 'removal':
      return { status: 200, body: operate.removal(row, machines) };
    case 'kubeconfig':
      return { status: 200, text: 'apiVersion: v1\nkind: Config\n' };
    case 'supportbundle':
      return problem(403, 'Forbidden', 'You may not read Secrets in the namespace ' + namespace);
  }
  return problem(404, 'NotFound', 'no such page');
}

function machineAnswer(namespace, name, what) {
  const row = find(fleet.machines, namespace, name);
  if (!row) return problem(404, 'NotFound', `Machine ${namespace}/${name} does not exist`);
  return what === 'plan' ? { status: 200, body: answers.plan(row) } : { status: 200, text: answers.machineLog(row) };
}

function answer(path, query, text) {
  const parts = path.split('/').map(decodeURIComponent);
  if (parts[0] === 'administration') return { status: 200, body: answers.administration() };
  if (path === 'releases') return changes.releases();
  if (path === 'schemas/cluster') return changes.schema();
  if (parts[0] === 'namespaces' && parts.length === 1) {
    return {
      status: 200,
      body: flags.tenant ? { all: false, namespaces: [] } : { all: true, namespaces: fleet.namespaces },
    };
  }
  const may = flags.tenant ? 'view' : 'edit';
  if (parts[2] === 'access')
    return { status: 200, body: { clusters: fleet.namespaces.includes(parts[1]) ? may : 'none' } };
  if (parts[2] === 'clusters') return clusterAnswer(parts.slice(1), query, text);
  if (parts[2] === 'machines') return machineAnswer(parts[1], parts[3], parts[4]);
  return problem(404, 'NotFound', 'no such page');
}

async function bodyOf(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

async function sessionAnswer(request, response, signedIn) {
  if (request.method === 'POST') {
    const text = await bodyOf(request);
    if (JSON.parse(text).token !== (flags.local ? 'local' : 'token'))
      return problem(401, 'Unauthorized', 'The API server does not accept this token.');
    response.setHeader('Set-Cookie', 'mock=1; Path=/ui/; HttpOnly; SameSite=Strict');
    return { status: 200, body: session };
  }
  if (request.method === 'DELETE') {
    response.setHeader('Set-Cookie', 'mock=; Path=/ui/; Max-Age=0');
    return { status: 204 };
  }
  return signedIn ? { status: 200, body: session } : problem(401, 'Unauthorized', 'sign in first');
}

async function handle(request, response) {
  const url = new URL(request.url, 'http://mock');
  const api = '/ui/api/v1/';
  if (!url.pathname.startsWith(api)) return serveFile(request, response, url.pathname.replace(/^\/ui/, ''));
  const path = url.pathname.slice(api.length);
  const signedIn = /mock=1/.test(request.headers.cookie ?? '');
  let out;
  if (path === 'session') out = await sessionAnswer(request, response, signedIn);
  else if (!signedIn) out = problem(401, 'Unauthorized', 'sign in first');
  else if (path === 'stream') return openStream(request, response, url.searchParams);
  else {
    const text = await bodyOf(request);
    const query = url.searchParams;
    out = create.answer(request.method, path, query, text, fleet, add) ?? answer(path, query, text);
  }
  response.writeHead(out.status, { ...out.headers, 'Content-Type': out.text ? 'text/plain' : 'application/json' });
  response.end(out.text ?? (out.body && JSON.stringify(out.body)));
}

if (!flags.still) setInterval(change, 2000).unref();
setInterval(() => streams.forEach((stream) => stream.response.write(': ping\n\n')), 15000).unref();
const server = createServer(handle).listen(Number(flags.port), '127.0.0.1', () =>
  console.log(`http://127.0.0.1:${server.address().port}/ui/`),
);
