/** What a measurement found is asked for once it has ended, and not before. */
import { LiveRun } from '../live';
import {
  anEndedRun,
  aFrame,
  aRun,
  aSurvey,
  FakeSocket
} from '../run/__tests__/samples';
import { Refusal } from './samples';

const api = {
  getRun: jest.fn(async () => aRun()),
  stopRun: jest.fn(async () => aRun()),
  resumeRun: jest.fn(async () => aRun({ state: 'queued', now: 1100 })),
  getBundle: jest.fn(async () => ({})),
  getSurvey: jest.fn(async () => aSurvey()),
  getCurves: jest.fn(async () => aFrame([])),
  followUrl: () => 'ws://here'
};
let live: LiveRun;

const measurement = { kind: 'measurement' as const };
const tell = (run: ReturnType<typeof aRun>) =>
  live.model.applyMessage({ type: 'run', run });

beforeEach(() => {
  jest.useFakeTimers();
  jest.clearAllMocks();
  live = new LiveRun('260101-120000-abcd', api, FakeSocket.create);
});

afterEach(() => {
  live.dispose();
  jest.useRealTimers();
});

it('fetches what was measured once, at the end', async () => {
  tell(aRun(measurement));
  expect(api.getSurvey).not.toHaveBeenCalled();

  tell(anEndedRun(measurement));
  tell(anEndedRun({ ...measurement, now: 1091 }));
  await jest.advanceTimersByTimeAsync(10);

  expect(api.getSurvey).toHaveBeenCalledTimes(1);
  expect(live.model.survey).toEqual(aSurvey());
});

it('asks for none of a training, nor of a measurement that was cancelled', async () => {
  tell(anEndedRun());
  tell(anEndedRun({ ...measurement, state: 'stopped', now: 1091 }));
  await jest.advanceTimersByTimeAsync(10);

  expect(api.getSurvey).not.toHaveBeenCalled();
});

it('asks again where the server did not answer, and not where there is none', async () => {
  api.getSurvey.mockRejectedValueOnce(new Refusal(503, 'busy', true));
  tell(anEndedRun(measurement));
  await jest.advanceTimersByTimeAsync(60_000);
  expect(api.getSurvey).toHaveBeenCalledTimes(2);
  expect(live.model.survey).not.toBeNull();

  live.dispose();
  live = new LiveRun('260101-120000-abcd', api, FakeSocket.create);
  api.getSurvey.mockRejectedValueOnce(new Refusal(404, 'nothing', true));
  tell(anEndedRun(measurement));
  await jest.advanceTimersByTimeAsync(60_000);

  expect(api.getSurvey).toHaveBeenCalledTimes(3);
});

it('follows a resumed run again, over another connection', async () => {
  FakeSocket.made = [];
  live.start();
  await jest.advanceTimersByTimeAsync(10);
  FakeSocket.last.greet(anEndedRun({ state: 'stopped' }));
  FakeSocket.last.say({ type: 'end' });
  expect(live.model.connection).toBe('ended');

  await live.actions.resume!();
  FakeSocket.last.greet(aRun({ state: 'queued', now: 1101 }));

  expect(FakeSocket.made.map(socket => socket.isClosed)).toEqual([true, false]);
  expect(live.model.run!.state).toBe('queued');
  expect(live.model.connection).toBe('live');
});
