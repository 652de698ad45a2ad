// How bytes get from rank to rank. A library that a launcher needs (MPI) implements it in a module
// of its own, which is loaded only under that launcher.
#pragma once

#include <cstddef>
#include <string>

namespace hg {

// Between two ranks messages arrive in the order in which they were sent. Used by one thread at a
// time. Throws std::runtime_error where the library fails.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begin a message. Its bytes stay where they are until open() is 0; both sides name its length.
  virtual void send(int to, const void* data, std::size_t bytes) = 0;
  virtual void receive(int from, void* data, std::size_t bytes) = 0;
  // Moves messages on; how many parts of them are still under way.
  virtual std::size_t open() = 0;
  virtual int awaited() const = 0;  // the other rank of one that is under way

  // A text to each other rank, outside the order of messages: this rank has failed.
  virtual void cry(const std::string& text) = 0;
  // Such a text of another rank, which `from` becomes. False: there is none.
  virtual bool heard(int& from, std::string& text) = 0;

  virtual void finish() = 0;  // all ranks end in order
};

inline constexpr const char* kMakeTransport = "hg_make_transport";  // in the module
using MakeTransport = Transport* (*)();

}  // namespace hg
